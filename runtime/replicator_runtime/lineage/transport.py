"""The transport of events as OpenLineage's client takes it; its secrets are macros, which are resolved here and nowhere shown."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.config.macros import resolve
from replicator_runtime.config.problem import Problem
from replicator_runtime.lineage.client_modules import NAMES, factory_of
from replicator_runtime.observability.redaction import register_secret

if TYPE_CHECKING:
    from openlineage.client.transport import Transport

_PATH: Final = "lineage.transport"
_SECRET_OBJECTS: Final = frozenset({"auth", "config", "storage_options", "fs_kwargs", "custom_headers", "properties"})
"""Objects of a transport's settings whose values may be secrets: Kafka's client settings, headers, keys of a store."""
_OF_SECRETS: Final = frozenset({"auth", "custom_headers"})
"""Those of them in which every value may be one, whatever its name."""
_SECRET_NAME: Final = re.compile(
    r"passw|secret|token|credential|jaas|private|signature|authorization|cookie|(?<![a-z])key(?!\.location)|apikey|access_?key|\.pem$",
    re.IGNORECASE,
)
_SHORTEST_SECRET: Final = 4
"""As the redactor's own; values that have only an object's name that says so are to have twice as many characters."""
EVENT_SECONDS: Final = 4.0
"""How long an event to Kafka may take: a run waits ten seconds at its end for all that it has to publish."""


def resolved_transport(written: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The settings of a transport with its macros replaced.

    What may be secret below `auth`, `config` and the like is known to redaction afterwards, also what is written in the JSON itself.

    Args:
        written: The key `lineage.transport`; None where the pipeline publishes no lineage.

    Returns:
        The settings, or None, and each problem.
    """
    if written is None:
        return None, []
    found, problems = resolve(dict(written), _PATH)
    kind = found.get("type")
    if not isinstance(kind, str):
        problems.append(Problem(f"{_PATH}.type", "missing", 'name a transport of OpenLineage, such as "http"'))
    elif kind not in NAMES and "." not in kind:
        known = f"one of {', '.join(sorted(NAMES))}, or the name of a class with its module"
        problems.append(Problem(f"{_PATH}.type", "no transport of OpenLineage", known))
    if find_spec("openlineage") is None:
        problems.append(
            Problem("lineage", "the OpenLineage client is not installed", "pip install 'replicator[lineage]'")
        )
    elif not problems:
        problems += _kafka_problems(found, _PATH)
    _register(found)
    return (None if problems else found), problems


def _kafka_problems(settings: Mapping[str, Any], path: str) -> list[Problem]:
    """What is wrong with settings of Kafka, also in the parts of transports that are made of others."""
    problems = [p for place, part in _parts(settings) for p in _kafka_problems(part, f"{path}.{place}")]
    if settings.get("type") != "kafka":
        return problems
    if find_spec("confluent_kafka") is None:
        problems.append(Problem(path, "Kafka's client is not installed", "pip install 'replicator[lineage-kafka]'"))
    config = settings.get("config")
    if not isinstance(config, Mapping) or not config.get("bootstrap.servers"):
        problems.append(Problem(f"{path}.config", "no brokers", 'name them: {"bootstrap.servers": "host:9092"}'))
    elif _longer(config.get("message.timeout.ms")):
        longest = f"at most {1000 * EVENT_SECONDS:.0f}: a run's end does not wait longer"
        problems.append(Problem(f"{path}.config.message.timeout.ms", "too long", longest))
    if not isinstance(settings.get("topic"), str):
        problems.append(Problem(f"{path}.topic", "missing", "name the topic that gets the events"))
    if settings.get("flush") is False:
        problems.append(Problem(f"{path}.flush", "each event is waited for", "leave it out"))
    return problems


def _parts(settings: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The transports that a transport is made of, each with its place in the settings."""
    several = settings.get("transports")
    named = several.items() if isinstance(several, Mapping) else enumerate(several if isinstance(several, list) else [])
    found = [(f"transports.{name}", part) for name, part in named]
    return [
        (place, part) for place, part in [*found, ("transport", settings.get("transport"))] if isinstance(part, Mapping)
    ]


def _longer(milliseconds: Any) -> bool:
    try:
        return float(milliseconds or 0) > 1000 * EVENT_SECONDS
    except (TypeError, ValueError):
        return False  # the client says what is wrong with it


def _register(value: Any, inside: str = "", name: str = "") -> None:
    """Have redaction know what may be secret, however deep it is.

    Args:
        value: A setting.
        inside: The innermost of `_SECRET_OBJECTS` that it is in; empty for none.
        name: Its own name, or that of the list it is in.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _register(inner, key if key in _SECRET_OBJECTS else inside, str(key))
    elif isinstance(value, list):
        for inner in value:
            _register(inner, inside, name)
    elif inside and isinstance(value, str) and name != "type" and "://" not in value:
        by_name = _SECRET_NAME.search(name) is not None
        shortest = _SHORTEST_SECRET if by_name else 2 * _SHORTEST_SECRET
        if (by_name or inside in _OF_SECRETS) and len(value) >= shortest:
            register_secret(value)


def open_transport(settings: Mapping[str, Any]) -> Transport:
    """A transport by its settings; connects to nothing yet, as a rule.

    Raises:
        Exception: Whatever the transport says of wrong settings, or of a library that it lacks.
    """
    return factory_of(settings["type"]).create(_asking_again(copy.deepcopy(dict(settings))))


def _asking_again(settings: dict[str, Any]) -> dict[str, Any]:
    """The same, where an event is sent again that one part of a composite transport did not take; by default that part never gets it."""
    if settings["type"] == "composite":
        settings.setdefault("continue_on_failure", False)
    for _, part in _parts(settings):
        if isinstance(part, dict) and isinstance(part.get("type"), str):
            _asking_again(part)
    return settings
