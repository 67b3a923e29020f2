"""The transport of events as OpenLineage's client takes it; its secrets are macros, which are resolved here and nowhere shown."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.config.macros import resolve
from replicator_runtime.config.problem import Problem
from replicator_runtime.lineage.client_modules import factory_of
from replicator_runtime.observability.redaction import register_secret

if TYPE_CHECKING:
    from openlineage.client.transport import Transport

_PATH: Final = "lineage.transport"
_SECRET_OBJECTS: Final = frozenset({"auth", "config", "storage_options", "fs_kwargs", "custom_headers", "properties"})
"""Objects of a transport's settings whose values may be secrets: Kafka's client settings, headers, keys of a store."""
_SHOWN: Final = frozenset(
    {"bootstrap.servers", "client.id", "compression.type", "sasl.mechanism", "sasl.mechanisms", "security.protocol"}
)
"""Settings of Kafka's client that are no secret: an error names the brokers."""
_SHORTEST_SECRET: Final = 8


def resolved_transport(written: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The settings of a transport with its macros replaced.

    Everything below `auth`, `config` and the like is known to redaction afterwards, also what is written in the JSON itself.

    Args:
        written: The key `lineage.transport`; None where the pipeline publishes no lineage.

    Returns:
        The settings, or None, and each problem.
    """
    if written is None:
        return None, []
    found, problems = resolve(dict(written), _PATH)
    if not isinstance(found.get("type"), str):
        problems.append(Problem(f"{_PATH}.type", "missing", 'name a transport of OpenLineage, such as "http"'))
    if find_spec("openlineage") is None:
        problems.append(
            Problem("lineage", "the OpenLineage client is not installed", "pip install 'replicator[lineage]'")
        )
    elif not problems:
        problems += _kafka_problems(found, _PATH)
    for key in _SECRET_OBJECTS & found.keys():
        _register(found[key])
    return (None if problems else found), problems


def _kafka_problems(settings: Mapping[str, Any], path: str) -> list[Problem]:
    """What is wrong with settings of Kafka, also in the parts of a composite transport."""
    parts = settings.get("transports", ())
    named = parts.items() if isinstance(parts, Mapping) else enumerate(parts)
    problems = [
        p
        for name, part in named
        if isinstance(part, Mapping)
        for p in _kafka_problems(part, f"{path}.transports.{name}")
    ]
    if settings.get("type") != "kafka":
        return problems
    if find_spec("confluent_kafka") is None:
        problems.append(Problem(path, "Kafka's client is not installed", "pip install 'replicator[lineage-kafka]'"))
    config = settings.get("config")
    if not isinstance(config, Mapping) or not config.get("bootstrap.servers"):
        problems.append(Problem(f"{path}.config", "no brokers", 'name them: {"bootstrap.servers": "host:9092"}'))
    if not isinstance(settings.get("topic"), str):
        problems.append(Problem(f"{path}.topic", "missing", "name the topic that gets the events"))
    if settings.get("flush") is False:
        problems.append(Problem(f"{path}.flush", "each event is waited for", "leave it out"))
    return problems


def _register(value: Any) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _SHOWN:
                _register(inner)
    elif isinstance(value, str) and len(value) >= _SHORTEST_SECRET and "://" not in value:
        register_secret(value)


def open_transport(settings: Mapping[str, Any]) -> Transport:
    """A transport by its settings; connects to nothing yet, as a rule.

    Raises:
        Exception: Whatever the transport says of wrong settings, or of a library that it lacks.
    """
    return factory_of(settings["type"]).create(copy.deepcopy(dict(settings)))
