"""From where on each table takes changes: the target's word, never older than the last error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.apply import named
from replicator_runtime.engine.failing import is_waiting, stop_alone
from replicator_runtime.engine.gather import TableFloor
from replicator_runtime.engine.last_positions import OLDER_COPY
from replicator_runtime.engine.progress import TableState
from replicator_runtime.engine.taking_tables import Rejoin
from replicator_sdk import BatchConsumer, Position
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.tables import SnapshotRecord, TableRecord
    from replicator_sdk import EventConsumer, TableId


log = structlog.get_logger()


def find_floors(run: Run, consumer: EventConsumer, records: list[TableRecord]) -> dict[TableId, TableFloor]:
    """The floors of the tables that take changes. A table whose progress cannot be read stops alone.

    Only after an attempt that ended without an error, so that tables can join, those are believed which it left: a
    target with many tables takes a while to tell. Otherwise the target is asked, for several tables at once.

    Raises:
        Rejoin: When the target has dropped a table that is now forgotten; one of that name may join.
        ReplicatorError: What concerns more than one table, or the last one that works.
    """
    if isinstance(consumer, BatchConsumer):
        _forget_dropped(run, consumer, records)
    settled, run.settled_floors = run.settled_floors, {}
    asked = [r for r in records if r.table not in run.failing and not is_waiting(run, r)]
    with ThreadPoolExecutor(run.limits.parallel_tables, thread_name_prefix="floor") as pool:
        found = list(pool.map(lambda record: _outcome(run, consumer, record, settled.get(record.table)), asked))
    for record, outcome in zip(asked, found, strict=True):
        if isinstance(outcome, Exception):
            stop_alone(run, record, outcome)
        elif not record.needs_snapshot:
            run.retries.pop(record.table, None)
    return {r.table: floor for r, floor in zip(asked, found, strict=True) if isinstance(floor, TableFloor)}


def _forget_dropped(run: Run, consumer: BatchConsumer, records: list[TableRecord]) -> None:
    """Forget tables that a run dropped at the target when it ended before it had noted that."""
    dropped = [r.table for r in records if r.dropping is not None and consumer.progress(r.table) is None]
    for table in dropped:
        run.book.records.pop(table, None)
        run.progress.forget_table(table)
    if dropped:
        run.book.save()
        raise Rejoin


def copied_floor(plan: SnapshotRecord) -> TableFloor:
    """Where a table stands whose snapshot has just ended: the target's word by contract, so it is not asked again."""
    return TableFloor(Position(plan.first), plan.last if plan.first < plan.last else None)


def _outcome(
    run: Run, consumer: EventConsumer, record: TableRecord, settled: TableFloor | None
) -> TableFloor | Exception | None:
    """The table's floor, or why it could not be found."""
    try:
        return _floor(run, consumer, record, settled)
    except Exception as error:  # noqa: BLE001 - the policy decides, for this table
        return named(error, record.table, "")


def _floor(run: Run, consumer: EventConsumer, record: TableRecord, settled: TableFloor | None) -> TableFloor | None:
    """From where on the table takes changes; None while it takes none."""
    if isinstance(consumer, BatchConsumer):
        if settled is not None and record.snapshot is not None:
            return _joined(run, record, record.snapshot, settled)
        return told_floor(run, consumer, record)
    if record.snapshot is None or not record.snapshot.done:
        return None
    return TableFloor(Position(record.snapshot.first))


def told_floor(run: Run, consumer: BatchConsumer, record: TableRecord) -> TableFloor | None:
    """What the table's own last commit says; also whether its snapshot is complete.

    Raises:
        NeedsUserError: As `find_floors`.
    """
    progress = consumer.progress(record.table)
    plan = record.snapshot
    if plan is None:
        return None
    if not plan.done:
        if progress is None or progress.snapshot_chunks is not None or progress.snapshot_id != plan.snapshot_id:
            return None
        plan.done, record.state = True, TableState.REPLICATING
        run.book.save()  # from its first batch on, the target's table tells of no snapshot any more
    if progress is None and record.gone:
        _forget_both(run, record)
        return None
    if progress is None or progress.snapshot_chunks is not None:
        raise NeedsUserError(
            "the target's table is gone or not as this replicator left it",
            code="RPL-4101",
            hint="put it back; or take the table out of `tables`, run once and put it in again: it is copied again",
            table=str(record.table),
        )
    if run.positions.is_older_copy(record.table, record.copy_id, progress.position, run.saved_offset):
        _copy_again(run, record, progress.position)
        return None
    return _joined(run, record, plan, replace(copied_floor(plan), position=progress.position))


def _forget_both(run: Run, record: TableRecord) -> None:
    """A table that neither source nor target has any more: nothing of it is to be applied."""
    log.warning("table.gone", table=str(record.table), why="neither source nor target has it")
    record.forget_copy()
    run.book.save()


def _copy_again(run: Run, record: TableRecord, found: Position) -> None:
    """Forget the snapshot of a table whose older copy is at the target; the changes it lacks are in no replay."""
    log.warning(
        "the target's table is an older copy (was a backup restored?): it is copied again",
        table=str(record.table),
        code=OLDER_COPY,
        found=str(found),
    )
    record.snapshot, record.state = None, TableState.PENDING
    run.book.save()


def _joined(run: Run, record: TableRecord, plan: SnapshotRecord, floor: TableFloor) -> TableFloor:
    plan.done = True
    record.state = TableState.REPLICATING
    run.progress.set_table(record.table, TableState.REPLICATING)
    return floor
