"""Refuses secrets that are written into a config: it is stored, shown and exported, so it has references to them only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from replicator_runtime.observability.redaction import is_sensitive_key, redact
from replicator_runtime.service.access.reach import check_reach
from replicator_runtime.service.problems import FieldProblem, ProblemError

if TYPE_CHECKING:
    from replicator_runtime.service.context import ServiceContext

LITERAL_SECRET = "RPL-1504"  # noqa: S105 - a code
_REFERENCE = re.compile(r"\$\{\s*(?:secure|env|file)\s*\([^(){}]*\)\s*\}")
_HINT = "write ${secure(NAME)} there, and store the secret as docs/configuration.md says: macros"
_SPELLINGS = {"cdc-origin": "cdcSource", "cdc-destination": "cdcTarget"}


def refuse_literal_secrets(context: ServiceContext, config: Mapping[str, Any]) -> None:
    """Do nothing when every secret in a config is a reference, and it names nothing that may not be reached.

    Raises:
        ProblemError: 422 RPL-1504 with the place of each that is not, 422 RPL-1556 as `check_reach` says.
    """
    found = [*_of_stages(context, config.get("stages")), *_of_notifications(config.get("notifications"))]
    found += _named_like_secrets(config.get("lineage"), "/lineage")
    found += _named_like_secrets(config.get("spark"), "/spark")
    if found:
        raise _refusal(found)
    check_reach(context.settings, config)


def refuse_literal_secrets_of_plugin(context: ServiceContext, plugin: Mapping[str, Any]) -> None:
    """The same of one stage's `plugin`."""
    if found := list(_of_plugin(context, plugin, "")):
        raise _refusal(found)
    check_reach(context.settings, plugin)


def _refusal(pointers: list[str]) -> ProblemError:
    places = [
        FieldProblem(pointer=pointer, message="a secret must be a reference") for pointer in dict.fromkeys(pointers)
    ]
    return ProblemError(422, LITERAL_SECRET, "the config has a secret written out", hint=_HINT, errors=places)


def _of_stages(context: ServiceContext, stages: object) -> Iterator[str]:
    for index, stage in enumerate(stages if isinstance(stages, list) else []):
        plugin = stage.get("plugin") if isinstance(stage, dict) else None
        if isinstance(plugin, dict):
            yield from _of_plugin(context, plugin, f"/stages/{index}/plugin")


def _of_plugin(context: ServiceContext, plugin: Mapping[str, Any], pointer: str) -> Iterator[str]:
    properties = plugin.get("properties")
    if not isinstance(properties, dict) or not properties:
        return
    declared = _declared(context, plugin.get("type"), plugin.get("name"))
    for key, value in properties.items():
        place = f"{pointer}/properties/{_escaped(key)}"
        if key not in declared:
            yield from _named_like_secrets(value, place, key)
        elif not declared[key].get("writeOnly"):
            yield from _named_like_secrets(value, place)
        elif not _is_reference(value):
            yield place


def _declared(context: ServiceContext, kind: object, name: object) -> Mapping[str, Mapping[str, Any]]:
    """The settings that a plugin declares; none of a plugin that is not installed."""
    kind = _SPELLINGS.get(str(kind), kind)
    for plugin in context.plugins.all():
        if plugin["type"] == kind and plugin["name"] == name:
            found: Mapping[str, Mapping[str, Any]] = plugin["schema"].get("properties", {})
            return found
    return {}


def _of_notifications(notifications: object) -> Iterator[str]:
    """Addresses of chats and the like give access by themselves."""
    for index, one in enumerate(notifications if isinstance(notifications, list) else []):
        if isinstance(one, dict) and "url" in one and not _is_reference(one["url"]):
            yield f"/notifications/{index}/url"


def _named_like_secrets(value: object, pointer: str, key: str = "") -> Iterator[str]:
    """Texts under keys that are named like secrets, and texts with a password in them."""
    if isinstance(value, dict):
        for inner, found in value.items():
            yield from _named_like_secrets(found, f"{pointer}/{_escaped(inner)}", inner)
    elif isinstance(value, list):
        for index, found in enumerate(value):
            yield from _named_like_secrets(found, f"{pointer}/{index}", key)
    elif isinstance(value, str) and not _is_reference(value):
        without = _REFERENCE.sub("", value)
        if (key and is_sensitive_key(key)) or redact(without) != without:
            yield pointer


def _is_reference(value: object) -> bool:
    """Whether a value is one macro, and nothing beside it; nothing at all is no secret either."""
    return value is None or (isinstance(value, str) and (not value or _REFERENCE.fullmatch(value.strip()) is not None))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
