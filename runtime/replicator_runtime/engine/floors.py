"""From where on each table takes changes: the target's word, never older than the last error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_runtime.engine.gather import TableFloor
from replicator_runtime.engine.progress import TableState
from replicator_sdk import BatchConsumer, Position
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.tables import SnapshotRecord, TableRecord
    from replicator_sdk import EventConsumer, TableId


def find_floors(run: Run, consumer: EventConsumer, records: list[TableRecord]) -> dict[TableId, TableFloor]:
    """The floors of the tables that take changes.

    Only after an attempt that ended without an error, so that tables can join, those are believed which it left: a
    target with many tables takes a while to tell. Otherwise the target is asked, for several tables at once.

    Raises:
        NeedsUserError: When a table that was copied is not at the target as this replicator left it.
    """
    settled, run.settled_floors = run.settled_floors, {}
    with ThreadPoolExecutor(run.limits.parallel_tables, thread_name_prefix="floor") as pool:
        found = pool.map(lambda record: _floor(run, consumer, record, settled.get(record.table)), records)
        return {r.table: floor for r, floor in zip(records, found, strict=True) if floor is not None}


def copied_floor(plan: SnapshotRecord) -> TableFloor:
    """Where a table stands whose snapshot has just ended: the target's word by contract, so it is not asked again."""
    return TableFloor(Position(plan.first), plan.last if plan.first < plan.last else None)


def _floor(run: Run, consumer: EventConsumer, record: TableRecord, settled: TableFloor | None) -> TableFloor | None:
    """From where on the table takes changes; None while it takes none."""
    if record.table in run.failing:
        return None
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
    if progress is None or progress.snapshot_chunks is not None:
        raise NeedsUserError(
            "the target's table is gone or not as this replicator left it",
            code="RPL-4101",
            hint="put it back, or take the table out of the pipeline and in again to copy it anew",
            table=str(record.table),
        )
    return _joined(run, record, plan, replace(copied_floor(plan), position=progress.position))


def _joined(run: Run, record: TableRecord, plan: SnapshotRecord, floor: TableFloor) -> TableFloor:
    plan.done = True
    record.state = TableState.REPLICATING
    run.progress.set_table(record.table, TableState.REPLICATING)
    return floor
