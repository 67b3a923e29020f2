"""What may be stored as a pipeline's config, and what is added to it before a command reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from replicator_runtime.service.problems import FieldProblem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.service.settings import ServiceSettings

TOO_LARGE = "RPL-1506"
OTHER_NAMESPACE = "RPL-1507"
LARGEST = 4 * 1024 * 1024
"""Bytes of a config; 10,000 tables with their columns take less than half."""
DEEPEST = 64
_HINT = "send a pipeline's config as docs/configuration.md describes it"
_SOURCES, _TARGETS = ("cdcSource", "cdc-origin"), ("cdcTarget", "cdc-destination")


def config_text(config: Mapping[str, Any]) -> str:
    """The text that is stored of a config: its keys in their order, ASCII only.

    Raises:
        ProblemError: 413 RPL-1506 when it is too large, 422 RPL-1506 when it is nested too deeply or holds a number that JSON has not.
    """
    if _depth_exceeds(config, DEEPEST):
        raise _refused(f"it is nested more than {DEEPEST} levels deep")
    try:
        text = json.dumps(config, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise _refused("it holds a number that JSON does not have") from None
    if len(text) > LARGEST:
        raise _refused(f"it has more than {LARGEST:,} bytes", large=True)
    return text


def completed(config: Mapping[str, Any], settings: ServiceSettings, namespace: str, name: str) -> dict[str, Any]:
    """A config as a command reads it: with the name, the namespace and the place of its state, which a draft may leave out.

    The seed's drafts have stages only. The connection between the only source and the only target is added where there is none.

    Raises:
        ProblemError: 422 RPL-1507 when the config names another namespace.
    """
    if config.get("namespace", namespace) != namespace:
        raise ProblemError(
            422,
            OTHER_NAMESPACE,
            f"the config names another namespace than {namespace}",
            hint="remove `namespace` from the config; the path names it",
            errors=[FieldProblem(pointer="/namespace", message=f"must be {namespace}, or left out")],
        )
    whole = {"name": name, "offsetBasePath": settings.base_path, **config, "namespace": namespace}
    whole.setdefault("stages", [])
    if not whole.get("connections"):
        whole["connections"] = _connection(whole["stages"])
    return whole


def _connection(stages: object) -> list[dict[str, Any]]:
    """The only connection that the stages can have; none while one of them is missing."""
    written = [stage for stage in stages if isinstance(stage, dict)] if isinstance(stages, list) else []
    sources, targets = ([s.get("name") for s in written if _type(s) in types] for types in (_SOURCES, _TARGETS))
    return [{"from": sources[0], "to": targets[0]}] if len(sources) == len(targets) == 1 else []


def _type(stage: Mapping[str, Any]) -> object:
    plugin = stage.get("plugin")
    return plugin.get("type") if isinstance(plugin, dict) else None


def _depth_exceeds(value: object, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _refused(why: str, *, large: bool = False) -> ProblemError:
    error = ProblemError(422, TOO_LARGE, f"the config is not stored: {why}", hint=_HINT)
    error.status = 413 if large else 422
    return error
