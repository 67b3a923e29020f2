"""The step of an edited `archive.path`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.planning.plan import Step, StepKind
from replicator_state import ArchiveFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from replicator_runtime.config import PipelineConfig


def archive_step(config: PipelineConfig, before: Mapping[str, Any] | None) -> list[Step]:
    """What follows from another archive than that of the last run; nothing for a first run.

    Args:
        config: The pipeline's settings.
        before: The selection that was stored.
    """
    was, now = (before or {}).get("archive"), place_of(config)
    if before is None or was == now:
        return []
    change = f"`archive.path` was {_shown(was)} and is {_shown(now)}"
    effect = "changes from now on are archived there; a table that was copied before is in it without its rows until `replicator table resync`"
    if now is None:
        effect = "changes are archived no more; the archive stays as it is, and has a hole if it is set again"
    return [Step(StepKind.SETTING, "archive.path", change, effect)]


def place_of(config: PipelineConfig) -> str | None:
    """Where the archive is, without credentials; None without one."""
    return None if config.archive is None else ArchiveFolder(config.archive.path, 0).place


def _shown(place: str | None) -> str:
    return "not set" if place is None else f'"{place}"'
