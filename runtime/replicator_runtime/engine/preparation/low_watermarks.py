"""Finds the low watermark of each table: the position in the table's own last commit at the target."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.lifecycle.restored_tables import is_older_copy, may_lack_letters
from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import BatchConsumer, Position
from replicator_sdk.errors import FencedError, NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import SnapshotRecord, TableRecord
    from replicator_sdk import EventConsumer, TableId


log = structlog.get_logger()
_OLDER_STATE = "the state is older than the table"


def find_watermarks(
    lifecycle: TableLifecycle, consumer: EventConsumer, records: list[TableRecord]
) -> dict[TableId, TableWatermark]:
    """The watermarks of the tables that take changes. A table whose progress cannot be read stops alone.

    An attempt that ended so that tables can join leaves its watermarks to the next one, since asking for many tables
    takes a while. After any error the target is asked, for several tables at once.

    Raises:
        Rejoin: When the target has dropped a table that is now forgotten; one of that name may join.
        ReplicatorError: What concerns more than one table, or the last one that works.
    """
    if isinstance(consumer, BatchConsumer):
        _forget_dropped(lifecycle, consumer, records)
    settled, lifecycle.settled_watermarks = lifecycle.settled_watermarks, {}
    asked = [record for record in records if lifecycle.may_join(record)]
    tables = {record.table for record in asked}
    others = [record for record in records if record.table not in tables]
    with ThreadPoolExecutor(lifecycle.run.limits.parallel_tables, thread_name_prefix="watermark") as pool:
        found = list(pool.map(lambda record: _outcome(lifecycle, consumer, record, settled.get(record.table)), asked))
        unknown = list(pool.map(lambda record: _is_of_unknown_run(lifecycle, consumer, record), others))
    for number, (record, outcome) in enumerate(zip(asked, found, strict=True)):
        if isinstance(outcome, Exception) and record.fails_in_lane:
            found[number] = _watermark_of_failing(lifecycle, record, outcome)
        elif isinstance(outcome, Exception):
            lifecycle.fail(record, outcome)
    for record in (record for record, is_unknown in zip(others, unknown, strict=True) if is_unknown):
        lifecycle.copy_again(record)
        lifecycle.begin_attempt([record])  # it fails as before, until it can be copied
    return {
        r.table: watermark for r, watermark in zip(asked, found, strict=True) if isinstance(watermark, TableWatermark)
    }


def _is_of_unknown_run(lifecycle: TableLifecycle, consumer: EventConsumer, record: TableRecord) -> bool:
    """As `may_lack_letters`, of a table that is not written now; a process asks once, before it may write tables.

    Where the target or the letters do not say, the table goes on: what resumes it finds what is damaged.

    Raises:
        FencedError: When a newer run took over.
    """
    run = lifecycle.run
    if not isinstance(consumer, BatchConsumer) or run.known_runs.has_own or record.snapshot is None:
        return False
    try:
        if not (record.snapshot.done and run.letters.may_have(record.copy_id)):
            return False
        progress = consumer.progress(record.table)
        return progress is not None and may_lack_letters(run, record, progress)
    except FencedError:
        raise
    except Exception as error:  # noqa: BLE001 - no fault of a table that is left alone stops it, or others
        log.info("table.not_asked", table=str(record.table), code=getattr(error, "code", ""))
        return False


def _watermark_of_failing(lifecycle: TableLifecycle, record: TableRecord, error: Exception) -> TableWatermark | None:
    """The watermark of a failing table whose target could not be asked; None when it takes no changes.

    A lane that has begun goes on. A new one begins at the table's last position that is known here, or its copy's, if the target is known to
    take changes of other tables. The position may be older than the target's, when a commit of which nothing was heard was
    made. Then the lane will not fit, and the table is copied again.

    Raises:
        Exception: `error`, when it concerns more than the table.
    """
    assert record.pause is not None
    plan, base = record.snapshot, record.pause.base
    assert plan is not None
    if base is None and lifecycle.is_target_at_work(record, error):
        copied = max(Position(plan.first), record.named_since or Position(plan.first))
        base = lifecycle.positions.last(record.table, record.copy_id) or copied
    if base is None:
        lifecycle.cannot_begin_lane(record, error)
        lifecycle.fail(record, error)
        return None
    lifecycle.fail_lane(record, error)
    base = record.pause.base or base
    lifecycle.join(record)
    overlap = plan.last if plan.first < plan.last else None
    return replace(TableWatermark(Position(plan.first), overlap), position=base)


def _forget_dropped(lifecycle: TableLifecycle, consumer: BatchConsumer, records: list[TableRecord]) -> None:
    """Forget tables that a run dropped at the target before it ended without recording that."""
    dropped = [r.table for r in records if r.dropping is not None and consumer.progress(r.table) is None]
    for table in dropped:
        lifecycle.forget(table)
    if dropped:
        raise Rejoin


def copied_watermark(plan: SnapshotRecord) -> TableWatermark:
    """The watermark of a table whose snapshot has just ended: by contract the target's, so the target is not asked."""
    return TableWatermark(Position(plan.first), plan.last if plan.first < plan.last else None)


def _outcome(
    lifecycle: TableLifecycle, consumer: EventConsumer, record: TableRecord, settled: TableWatermark | None
) -> TableWatermark | Exception | None:
    """The table's watermark, or why it could not be found."""
    try:
        return _watermark(lifecycle, consumer, record, settled)
    except Exception as error:  # noqa: BLE001 - the policy decides, for this table
        return error_of_table(error, record.table, "")


def _watermark(
    lifecycle: TableLifecycle, consumer: EventConsumer, record: TableRecord, settled: TableWatermark | None
) -> TableWatermark | None:
    """The table's watermark; None while it takes no changes."""
    if isinstance(consumer, BatchConsumer):
        if record.pause is not None and record.pause.base is not None and not record.pause.resuming:
            return _watermark_of_paused(lifecycle, consumer, record, record.pause.base)
        if settled is not None and record.snapshot is not None:
            return _joined(lifecycle, record, settled)
        return reported_watermark(lifecycle, consumer, record)
    if record.snapshot is None or not record.snapshot.done:
        return None
    lifecycle.join(record)
    copied = Position(record.snapshot.first)
    return TableWatermark(copied if record.named_since is None else max(copied, record.named_since))


def _watermark_of_paused(
    lifecycle: TableLifecycle, consumer: BatchConsumer, record: TableRecord, base: Position
) -> TableWatermark | None:
    """The watermark of a table whose changes go to its lane, which begins at `base`; None when the lane is of no use."""
    if record.snapshot is None:
        return None
    if _is_of_unknown_run(lifecycle, consumer, record):
        lifecycle.drop_lane(record, _OLDER_STATE)
        return None
    return _joined(lifecycle, record, replace(copied_watermark(record.snapshot), position=base))


def reported_watermark(
    lifecycle: TableLifecycle, consumer: BatchConsumer, record: TableRecord
) -> TableWatermark | None:
    """The watermark from the table's own last commit, which also says whether its snapshot is complete.

    Raises:
        NeedsUserError: As `find_watermarks`.
    """
    plan = record.snapshot
    if plan is None:
        return None  # whether this run may write the table is checked when its copy begins
    progress = consumer.progress(record.table)
    lifecycle.run.totals.recover_copy(record.table, plan.snapshot_id, progress)
    if progress is not None and may_lack_letters(lifecycle.run, record, progress):
        lifecycle.copy_again(record)
        return None
    if not plan.done:
        if progress is None or progress.snapshot_chunks is not None or progress.snapshot_id != plan.snapshot_id:
            return None
        lifecycle.find_copied(record)
    if progress is None and record.gone:
        _forget_both(lifecycle, record)
        return None
    if progress is None or progress.snapshot_chunks is not None:
        raise NeedsUserError(
            "the target's table is gone or not as this replicator left it",
            code="RPL-4101",
            hint="put it back; or copy the table again: `replicator table resync NAME TABLE --in-place`",
            table=str(record.table),
        )
    if is_older_copy(lifecycle.run, lifecycle.positions, record, progress):
        lifecycle.copy_again(record)
        return None
    return _joined(lifecycle, record, replace(copied_watermark(plan), position=progress.position))


def _forget_both(lifecycle: TableLifecycle, record: TableRecord) -> None:
    """Forget a table that neither source nor target has: there is nothing to apply."""
    log.warning("table.gone", table=str(record.table), why="neither source nor target has it")
    lifecycle.start_over(record)
    lifecycle.save()


def _joined(lifecycle: TableLifecycle, record: TableRecord, watermark: TableWatermark) -> TableWatermark:
    lifecycle.join(record)
    return watermark
