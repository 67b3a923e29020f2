"""Target tables of a source that takes no snapshots: created empty, once, before its log brings all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_runtime.engine.tables.table_creation import create_table, is_former, lost_state
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import BatchConsumer, DDLEvent, DDLOperation, Position
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventConsumer, Offset, TableId
    from replicator_sdk.target import TableProgress


def create_tables(
    lifecycle: TableLifecycle,
    consumer: EventConsumer,
    records: list[TableRecord],
    watermarks: dict[TableId, TableWatermark],
    start: Offset,
) -> None:
    """Create the target tables that do not exist, and find the low watermark of each; not of those that `leave_in_log` looks for.

    The schemas they are created with are saved first: a later start would describe the tables as they are by then.

    Args:
        lifecycle: Of all tables.
        consumer: Started.
        records: The tables.
        watermarks: Filled here; a table that cannot take changes is left out and stops alone.
        start: Where reading starts.
    """
    lifecycle.save()
    for record in records:
        if lifecycle.is_waiting(record) or (record.pause is not None and record.created):
            continue
        try:
            watermark = _watermark(lifecycle, consumer, record, start)
            if isinstance(consumer, BatchConsumer):
                refuse_older_copy(lifecycle, record, watermark.position)
        except Exception as error:  # noqa: BLE001 - the policy decides, for this table
            lifecycle.fail(record, error_of_table(error, record.table, str(start)))
            continue
        watermarks[record.table] = watermark
        record.created = True
        if record.pause is None:
            lifecycle.create(record)
    lifecycle.save()


def refuse_lost_state(consumer: EventConsumer, records: list[TableRecord], generation: int) -> None:
    """Refuse to begin a log where the target has tables that an earlier run of this replicator filled: its state was lost.

    Such a table's position is a place in that run's reading of the log. This run begins elsewhere and cuts the log otherwise, so
    changes between the two would be missing or come twice. The epoch shows it only when it is lower than that run's. A table
    of a former generation is emptied instead: `replicator reset` began this one.

    Raises:
        NeedsUserError: RPL-4105 for the first such table.
    """
    if not isinstance(consumer, BatchConsumer):
        return
    for record in records:
        try:
            progress = consumer.progress(record.table)
        except Exception:  # noqa: BLE001, S112 - it is asked for again when the table is created, and judged there
            continue
        if progress is not None and progress.generation >= generation:
            raise lost_state(record.table, progress)


def refuse_replaced(record: TableRecord, progress: TableProgress) -> None:
    """Refuse a table in whose place another program has put another one: its rows may be of another time than its position.

    Raises:
        NeedsUserError: RPL-4116.
    """
    if progress.replaced:
        raise NeedsUserError(
            "the target's table is not the one that was written last (was an older state of it restored, or was it created again?): it may lack"
            " changes, and this source takes no snapshots to make it whole again",
            code="RPL-4116",
            table=str(record.table),
            position=str(progress.position),
            hint="take the table out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with another `name` and another place at"
            " the target, which reads the log from its start",
        )


def refuse_older_copy(lifecycle: TableLifecycle, record: TableRecord, position: Position) -> None:
    """Refuse a table whose target went back to `position`: the changes that it lost are in no replay.

    Raises:
        NeedsUserError: RPL-4111.
    """
    saved = lifecycle.run.saved_offset
    if lifecycle.positions.is_older_copy(record.table, record.copy_id, position, saved):
        raise NeedsUserError(
            "the target's table is an older copy (was a backup restored?): changes after it are missing, and this source"
            " takes no snapshots to make it whole again",
            code="RPL-4111",
            table=str(record.table),
            position=str(position),
            hint="put the newer copy back; or take the table out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with"
            " another `name` and target folder, which reads the log from its start",
        )


def _watermark(
    lifecycle: TableLifecycle, consumer: EventConsumer, record: TableRecord, start: Offset
) -> TableWatermark:
    generation = lifecycle.run.generation
    progress = consumer.progress(record.table) if isinstance(consumer, BatchConsumer) else None
    begin = Position(start)
    if progress is not None and (
        record.created or (not is_former(progress, generation) and begin <= progress.position)
    ):
        refuse_replaced(record, progress)
        lifecycle.run.totals.recover(record.table, record.copy_id, progress)
        return TableWatermark(progress.position)
    if progress is None and record.created and isinstance(consumer, BatchConsumer):
        raise table_gone(record)
    event = DDLEvent(start, DDLOperation.CREATE_TABLE, record.table, record.schema, position=begin)
    create_table(consumer, event, 1 if record.created else generation, is_new=not record.created)
    return TableWatermark(begin)


def table_gone(record: TableRecord) -> NeedsUserError:
    """The error of a table that was created and that the target does not have."""
    return NeedsUserError(
        "the target's table is gone, and this source takes no snapshots to make it whole again",
        code="RPL-4103",
        table=str(record.table),
        hint="put it back; or take the table out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with another"
        " `name` and target folder, which reads the log from its start",
    )
