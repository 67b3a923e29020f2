"""Creates a table at the target for a source that takes no snapshots; one of a former generation is emptied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_sdk import BatchConsumer, DDLOperation, SnapshotLoader
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_sdk import DDLEvent, EventConsumer, TableProgress

register("engine.former_table.begun")
log = structlog.get_logger()


def create_table(consumer: EventConsumer, event: DDLEvent, generation: int) -> None:
    """Create the table of a CREATE_TABLE, durable on return; one that a former generation filled is emptied.

    May be repeated until a change of the table is applied.

    Args:
        consumer: Started.
        event: With schema and position; the table is at that position afterwards.
        generation: The replicator's.
    """
    if not isinstance(consumer, BatchConsumer):
        consumer.apply_ddl(event)
        if generation > 1:  # the target does not say whether a former generation filled it
            consumer.apply_ddl(replace(event, operation=DDLOperation.TRUNCATE_TABLE))
        return
    progress = consumer.progress(event.table)
    if progress is None or not is_former(progress, generation):
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


def is_former(progress: TableProgress, generation: int) -> bool:
    """Whether a former generation wrote the table, or it is being emptied of what that wrote."""
    return progress.generation < generation or progress.snapshot_chunks is not None
