"""Has the target rename the tables that the log has renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_runtime.engine.structure.kept_columns import event_for_target
from replicator_runtime.engine.tables.remains import Remains
from replicator_runtime.engine.tables.rename_step import is_aside
from replicator_sdk.errors import SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_sdk import EventConsumer, TableId

register("engine.rename.applied")
log = structlog.get_logger()


def finish_renames(lifecycle: TableLifecycle, consumer: EventConsumer) -> None:
    """Have the target do what is kept of renames, in order, before it is asked for anything else of the tables.

    Each step is forgotten once it is done, so after a crash at most the first one is done already, which the target sees by
    the step's position. Tables that the target cannot rename are copied under their new names.

    Raises:
        Exception: When the target does not answer; the next attempt continues.
    """
    steps = list(lifecycle.run.table_store.renames)
    events = [event_for_target(step.event, lifecycle.records.get(step.event.table)) for step in steps]
    tables = {step.schema.table for step in steps}
    lifecycle.run.known_runs.add_copies([r.copy_id for table, r in lifecycle.records.items() if table in tables])
    for step, event in zip(steps, events, strict=True):
        try:
            if step is steps[0]:
                lifecycle.run.archive.renamed(events, consumer)
            consumer.apply_ddl(event)
        except Exception as error:
            if not isinstance(error, SnapshotNeededError) and verdict(error, isolate=True) is not Verdict.TABLE:
                raise
            _copy_instead(lifecycle, error)
            return
        failpoint("engine.rename.applied")
        lifecycle.end_rename(1)
        log.info("table.renamed", table=str(step.schema.table), former=str(step.former), position=str(step.position))


def _copy_instead(lifecycle: TableLifecycle, error: Exception) -> None:
    """Copy the tables of all steps that are left, and note what was put aside; durable when this returns."""
    left = {step.schema.table for step in lifecycle.run.table_store.renames} & lifecycle.records.keys()
    for table in left:
        log.warning("table.copied_again", table=str(table), code=getattr(error, "code", ""), error=str(error))
        lifecycle.copy_again(lifecycle.records[table])
    for table in _left_aside(lifecycle):
        lifecycle.run.table_store.remains.note(Remains(table))
    lifecycle.end_rename(len(lifecycle.run.table_store.renames))


def _left_aside(lifecycle: TableLifecycle) -> set[TableId]:
    """The names of the runtime's own that a table may have at the target, now that no step takes it from there."""
    names = {name for step in lifecycle.run.table_store.renames for name in (step.former, step.schema.table)}
    return {name for name in names if is_aside(name)}
