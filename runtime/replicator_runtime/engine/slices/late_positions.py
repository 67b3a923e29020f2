"""Finds how far tables are whose changes the source's log keeps, since they are paused or have failed for long."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from replicator_runtime.engine.preparation.created_tables import refuse_older_copy, refuse_replaced, table_gone
from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_sdk import Position
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import BatchConsumer, Offset, TableId

register("engine.late_table.left")


def end_idle_pauses(lifecycle: TableLifecycle, records: Sequence[TableRecord]) -> None:
    """End the pauses of tables that are to be resumed and that the saved offset has not passed: they never ceased to be whole.

    Args:
        lifecycle: Of all tables.
        records: The tables that have not stopped.
    """
    saved = lifecycle.run.saved_offset
    for record in records:
        pause = record.pause
        if pause is not None and pause.resuming and (pause.base is None or pause.base.offset == saved):
            lifecycle.end_lane(record)


def leave_in_log(
    lifecycle: TableLifecycle,
    consumer: BatchConsumer,
    records: Sequence[TableRecord],
    watermarks: dict[TableId, TableWatermark],
    start: Offset,
) -> dict[TableId, Position]:
    """How far each table is that has a pause; durable before the saved offset passes it.

    A table has everything up to the offset at which its pause begins, since that does not move past a table that is not whole. So the
    target is asked only for one that is to be resumed: it may have more.

    Args:
        lifecycle: Of all tables.
        consumer: Started.
        records: The tables that have not stopped.
        watermarks: Those of tables with a pause are taken out.
        start: The saved offset.
    """
    late: dict[TableId, Position] = {}
    for record in records:
        if record.pause is None or lifecycle.is_waiting(record):
            continue
        watermarks.pop(record.table, None)
        if not lifecycle.reads_tables_alone:
            continue  # it holds the offset until it is resumed
        try:
            position = _position(lifecycle, consumer, record, start)
        except Exception as error:  # noqa: BLE001 - the policy decides, for this table
            _fail(lifecycle, record, error_of_table(error, record.table, str(start)), start, late)
            continue
        late[record.table] = _left(lifecycle, record, position, start)
    return late


def refuse_late_tables(records: Sequence[TableRecord]) -> None:
    """Refuse that one reader goes on where executors have left changes of a table in the log: it cannot read a table alone.

    Raises:
        NeedsUserError: RPL-4102 for the first such table.
    """
    for record in records:
        if record.is_in_log:
            raise NeedsUserError(
                f"executors were reading this log, and {record.table} is {'failing' if record.fails_in_lane else 'paused'}: they are still to"
                " read what came meanwhile",
                code="RPL-4102",
                table=str(record.table),
                hint="let executors read once more (source and settings as before), run until it is current and every table"
                " replicates, stop it in order, and let one reader go on then",
            )


def _position(lifecycle: TableLifecycle, consumer: BatchConsumer, record: TableRecord, start: Offset) -> Position:
    """Up to where the table has everything; the target is asked where it is to take changes, or is to begin to fail in the log."""
    assert record.pause is not None
    base = record.pause.base or Position(start)
    if not (record.pause.resuming or (record.fails_in_lane and record.pause.base is None)):
        _recover_count(lifecycle, consumer, record)
        return base
    progress = consumer.progress(record.table)
    if progress is None:
        raise table_gone(record)
    refuse_replaced(record, progress)
    refuse_older_copy(lifecycle, record, progress.position)
    lifecycle.run.totals.recover(record.table, record.copy_id, progress)
    return max(base, progress.position)


def _recover_count(lifecycle: TableLifecycle, consumer: BatchConsumer, record: TableRecord) -> None:
    """Count what a run that was killed gave a table that begins to be paused; where the target cannot be asked, once it is resumed."""
    assert record.pause is not None
    if record.pause.base is None:
        with contextlib.suppress(Exception):
            progress = consumer.progress(record.table)
            if progress is not None:
                lifecycle.run.totals.recover(record.table, record.copy_id, progress)


def _left(lifecycle: TableLifecycle, record: TableRecord, position: Position, start: Offset) -> Position:
    assert record.pause is not None
    if record.pause.base is None:
        lifecycle.leave_in_log(record, Position(start))
        failpoint("engine.late_table.left")
    lifecycle.join(record)
    return position


def _fail(
    lifecycle: TableLifecycle, record: TableRecord, error: Exception, start: Offset, late: dict[TableId, Position]
) -> None:
    """The target cannot be asked. A table that fails for long is left in the log all the same, where the target takes changes of others."""
    assert record.pause is not None
    if not record.fails_in_lane:
        lifecycle.fail(record, error)
    elif record.pause.base is None and not lifecycle.is_target_at_work(record, error):
        lifecycle.cannot_begin_lane(record, error)
        lifecycle.fail(record, error)
    else:
        late[record.table] = _left(lifecycle, record, record.pause.base or Position(start), start)
        lifecycle.fail_lane(record, error)
