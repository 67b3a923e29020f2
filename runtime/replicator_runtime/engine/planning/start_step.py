"""The step of `snapshot.from`: where a pipeline begins, or that an edit of it changes nothing any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.planning.plan import Step, StepKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from replicator_runtime.config import Pipeline

SUBJECT = "snapshot.from"


def first_start_step(pipeline: Pipeline) -> list[Step]:
    """Where a pipeline that has not begun begins; asks the source.

    Raises:
        ReplicatorError: As `DeltaSource.find_start`.
    """
    config = pipeline.config
    chosen = config.snapshot.from_
    if chosen is None:
        return []
    offset = pipeline.source.find_start(chosen.start, namespace=config.namespace, name=config.name)
    return [Step(StepKind.SETTING, SUBJECT, f"`snapshot.from` is {chosen.start}", starts_at(str(offset)))]


def starts_at(offset: str) -> str:
    """What follows from a start at `offset`, for people."""
    return f"starts at {offset}: the tables get the changes after it; rows that are there already are not copied"


def start_step(pipeline: Pipeline, before: Mapping[str, Any] | None) -> list[Step]:
    """What follows from another `snapshot.from` than that of the last run, of a pipeline that has begun.

    Args:
        pipeline: The pipeline.
        before: The selection that was stored.
    """
    chosen = pipeline.config.snapshot.from_
    was, now = (before or {}).get("from"), None if chosen is None else str(chosen.start)
    if before is None or was == now:
        return []
    change = f"`snapshot.from` was {was or 'not set'} and is {now or 'not set'}"
    effect = "nothing: the pipeline has begun, and goes on after its saved offset; `replicator reset PIPELINE` begins again, and then it counts"
    return [Step(StepKind.SETTING, SUBJECT, change, effect)]
