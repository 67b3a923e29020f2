"""Creates a table at the target for a source that takes no snapshots, and changes the structure of one that is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_sdk import BatchConsumer, DDLOperation, SnapshotLoader
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_sdk import DDLEvent, EventConsumer, Position, TableId, TableProgress

register("engine.former_table.begun")
log = structlog.get_logger()
_CHANGING = frozenset({DDLOperation.ALTER_TABLE, DDLOperation.TRUNCATE_TABLE})


def create_table(consumer: EventConsumer, event: DDLEvent, generation: int, *, is_new: bool = False) -> None:
    """Create the table of a CREATE_TABLE, durable on return; one that a former generation filled is emptied.

    May be repeated until a change of the table is applied.

    Args:
        consumer: Started.
        event: With schema and position; the table is at that position afterwards.
        generation: The replicator's.
        is_new: Whether no run that the state knows of has created it.

    Raises:
        NeedsUserError: RPL-4105 for a new table that has changes of an earlier run.
    """
    if not isinstance(consumer, BatchConsumer):
        consumer.apply_ddl(event)
        if generation > 1:  # the target does not say whether a former generation filled it
            consumer.apply_ddl(replace(event, operation=DDLOperation.TRUNCATE_TABLE))
        return
    progress = consumer.progress(event.table)
    if progress is None or not is_former(progress, generation):
        if (
            is_new
            and progress is not None
            and event.position is not None
            and is_of_lost_state(progress, event.position)
        ):
            raise lost_state(event.table, progress)
        consumer.apply_ddl(event)
        return
    assert event.schema is not None
    assert event.position is not None
    if not isinstance(consumer, SnapshotLoader):
        raise NeedsUserError(
            "the target has the table of a former generation, and cannot replace its rows",
            code="RPL-4112",
            table=str(event.table),
            hint="delete the table at the target: it is created again at the next attempt",
        )
    plan = f"generation-{generation}"  # of no chunks: a table without rows
    consumer.begin_snapshot(event.schema, plan, event.position)
    failpoint("engine.former_table.begun")
    consumer.finish_snapshot(event.schema, plan, event.position)
    log.warning(
        "table.emptied", table=str(event.table), why="a former generation filled it", position=str(event.position)
    )


def change_table(consumer: EventConsumer, event: DDLEvent) -> None:
    """Apply a change of structure of a table that this replicator writes, durable on return.

    The target is asked whether the table is there first: one that another program deleted would come back empty.

    Raises:
        RetryableError: RPL-4114 when it is gone; the next attempt decides what follows.
    """
    if event.operation in _CHANGING and isinstance(consumer, BatchConsumer) and consumer.progress(event.table) is None:
        raise RetryableError(
            "the target's table is gone, and is to be changed",
            code="RPL-4114",
            table=str(event.table),
            position=str(event.position),
            hint="tried again by itself: the table's next error says what to do; find out what deleted it",
        )
    consumer.apply_ddl(event)


def is_of_lost_state(progress: TableProgress, position: Position) -> bool:
    """Whether a run that the state does not know has written changes or rows to a table that is to be created at `position`.

    What is between its place in the log and this one would be missing. A commit that only creates a table may be this state's:
    the process ended before it was noted; then the event is applied once more.
    """
    return progress.position < position and bool(progress.batch or progress.snapshot_id)


def lost_state(table: TableId, progress: TableProgress) -> NeedsUserError:
    """The error of a table that an earlier run of this replicator filled, of which the state knows nothing."""
    return NeedsUserError(
        "the target has the table of an earlier run, of which the pipeline's state knows nothing: the state was deleted, or another one is"
        " used",
        code="RPL-4105",
        table=str(table),
        position=str(progress.position),
        hint="put the state back; without it `replicator reset PIPELINE --lost-state`: the tables are emptied and the log is read from"
        " `startFrom`, so let the connector snapshot its tables again before",
    )


def is_former(progress: TableProgress, generation: int) -> bool:
    """Whether a former generation wrote the table, or it is being emptied of what that wrote."""
    return progress.generation < generation or progress.snapshot_chunks is not None
