"""Does what operators have decided of tables that the source has dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.error_policy import belongs_to_table
from replicator_sdk import BatchConsumer, DDLEvent, DDLOperation
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventConsumer

register("engine.drop.applied")
log = structlog.get_logger()


def finish_drops(lifecycle: TableLifecycle, consumer: EventConsumer) -> bool:
    """Drop the tables at the target whose DROP TABLE was approved, and forget them and those where it was rejected.

    After a crash it is done again, but for a table that the target has no more. One that the target cannot drop stops alone.

    Returns:
        Whether there were any; a table of that name joins like a new one.

    Raises:
        Exception: When the target does not answer; the next attempt continues.
    """
    done = False
    decided = [r for r in lifecycle.records.values() if r.is_drop_decided and r.table not in lifecycle.stopped]
    for record in decided:
        try:
            approved = _drop(record, consumer)
        except ReplicatorError as error:
            if not belongs_to_table(error, record.table, isolate=lifecycle.run.config.on_table_error == "isolate"):
                raise
            lifecycle.stop(record, error)
            continue
        lifecycle.forget(record.table)
        log.warning("table.dropped", table=str(record.table), at_the_target=approved)
        done = True
    return done


def _drop(record: TableRecord, consumer: EventConsumer) -> bool:
    """Drop the table at the target if that was approved, and return whether it was."""
    assert record.pause is not None
    [change] = (change for change in record.pause.changes if change.operation is DDLOperation.DROP_TABLE)
    decision = record.decision_at(change.position)
    assert decision is not None
    is_there = not isinstance(consumer, BatchConsumer) or consumer.progress(record.table) is not None
    if decision.approved and is_there:
        position = change.position
        consumer.apply_ddl(DDLEvent(position.offset, change.operation, record.table, position=position))
        failpoint("engine.drop.applied")
    return decision.approved
