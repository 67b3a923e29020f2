"""Decides for each table whether it works, fails, is copied again or is forgotten, and keeps what belongs to it."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.lifecycle.copies import Copies
from replicator_runtime.engine.lifecycle.deciding import Deciding
from replicator_runtime.engine.lifecycle.log_release import LogRelease, has_what_follows, isolates, keeps_deleted_rows
from replicator_runtime.engine.lifecycle.long_failures import LaneTries, LongFailures
from replicator_runtime.engine.lifecycle.pausing import Pausing
from replicator_runtime.engine.lifecycle.postponed_tables import PostponedTables
from replicator_runtime.engine.lifecycle.transitions import Cause, check
from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_runtime.engine.run_state.progress import error_view
from replicator_runtime.engine.run_state.retry_budget import TableRetryBudgets
from replicator_runtime.engine.run_state.unknown_errors import without_values
from replicator_runtime.engine.tables.last_positions import LastPositions
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import DataError, SchemaDriftError, TableHistoryLostError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.remains import Remains
    from replicator_runtime.engine.tables.rename_step import Rename, RenameStep
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import Offset, Position, TableId

register("engine.release.before_save", "engine.release.after_save")
log = structlog.get_logger()


class TableLifecycle(Deciding, LongFailures, Pausing):
    """All tables of one run. Only this class changes a table's state; each change is one of `TRANSITIONS`.

    The states are kept in the run's table store. A method that says so makes its decision durable; the others leave that
    to the next save of the store, which always comes before the offset that follows. Used by the engine's main thread;
    `begin_copy`, `end_copy`, `find_copied`, `join` and `progressed` by other threads, too, each for a table of its own.

    Args:
        run: The run; its table store is what is read and written here.

    Attributes:
        run: The same.
        positions: The last durable position of each table.
        copies: The copies that run now. A table that fails, is copied again or forgotten has none from then on.
        takes_snapshots: Whether the engine copies the source's tables; known once an attempt has begun, as the next.
        takes_lanes: Whether the target says how far its tables are, so that they can have lanes.
        settled_watermarks: Left by an attempt that ended so that other tables can join; the next attempt takes them.
        postponed: New tables that are not taken in yet.
    """

    def __init__(self, run: Run) -> None:
        self.run: Run = run
        self.positions = LastPositions(run.store, run.read_offset)
        self.copies = Copies()
        self.takes_snapshots = self.takes_lanes = True
        self.settled_watermarks: dict[TableId, TableWatermark] = {}
        self.postponed = PostponedTables()
        self._store = run.table_store
        self._lock = threading.RLock()
        self._stopped: dict[TableId, Exception] = {}
        self._missing: dict[TableId, Exception] = {}
        self._retry_at: dict[TableId, float] = {}
        self._budgets = TableRetryBudgets(run.config.retries)
        self._release: LogRelease = LogRelease(run.config.failing_tables)
        self._tries: LaneTries = LaneTries(run.config.failing_tables.max_copy_delay_seconds)
        self._errors: dict[TableId, Exception] = {}

    # --- what is known of the tables

    @property
    def records(self) -> Mapping[TableId, TableRecord]:
        """All tables that are known."""
        return self._store.records

    def save(self, record: TableRecord | None = None) -> None:
        """Keep what is known of this table, or of all; durable when this returns."""
        self._store.save(record)

    @property
    def stopped(self) -> Mapping[TableId, Exception]:
        """The tables that have stopped, and why: until the next start of the run, or until they are copied again."""
        return self._stopped

    @property
    def missing(self) -> Mapping[TableId, Exception]:
        """Tables named in the pipeline that the source did not have when this attempt began, and their errors."""
        return self._missing

    def is_waiting(self, record: TableRecord) -> bool:
        """Whether the table failed for a while and is not to be tried again yet."""
        return self._retry_at.get(record.table, -math.inf) > time.monotonic()

    def may_join(self, record: TableRecord) -> bool:
        """Whether the target is to be asked how far the table is, so that it takes changes if it is copied."""
        return not (record.copying or record.table in self._stopped or self.is_waiting(record))

    def next_retry(self, taking: Container[TableId]) -> float:
        """When a table that failed is tried again by a replay, on this process's clock; infinite when none is.

        Args:
            taking: The tables that take changes; they are not replayed.
        """
        return min(
            (at for t, at in self._retry_at.items() if t not in taking and self._is_replayed(t)), default=math.inf
        )

    def _is_replayed(self, table: TableId) -> bool:
        """Whether a replay is what the table waits for; one whose rows are still to be copied waits for its copy."""
        record = self.records.get(table)
        return record is not None and not (self.takes_snapshots and record.needs_snapshot)

    def holds_offset(self, taking: Container[TableId]) -> bool:
        """Whether some table needs changes after the saved offset, which therefore must not move.

        Args:
            taking: The tables that take changes.
        """
        parts = (record for record in self.records.values() if record.selected or record.gone)
        return any(record.table not in taking and not self._starts_over(record) for record in parts)

    def _starts_over(self, record: TableRecord) -> bool:
        """Whether the table stopped before any of its rows was copied, or is paused without a copy, or is read by itself later."""
        is_paused = record.pause is not None and record.needs_snapshot
        is_not_begun = is_paused or (record.snapshot is None and record.table in self._stopped)
        return record.is_in_log or (self.takes_snapshots and is_not_begun)

    # --- tables that the source does not have

    def show_missing(self, table: TableId, error: Exception) -> None:
        """Show a table as FAILING that the pipeline names and the source does not have; it has no state."""
        self._missing[table] = error
        self.run.progress.set_table(table, TableState.FAILING, error)

    def forget_missing(self) -> None:
        """Show none of them any more, since they are looked for again."""
        for table in self._missing:
            self.run.progress.forget_table(table)
        self._missing = {}

    # --- a table begins

    def load(self) -> None:
        """Read what an earlier run or attempt stored of all tables; those that gave the log up are copied again when due."""
        self._store.load()
        for error in self._errors.values():
            without_values(error)  # frames that were executed still when it was kept
        for table in self._release.take_due():
            self._stopped.pop(table, None)
        self.try_lanes()
        self.positions.forget_others(self.records)
        self.run.totals.forget_others({t: record.copy_id for t, record in self.records.items()}, self._missing)

    def show_stored(self) -> None:
        """Show the selected tables in the state an earlier run left them in, until an attempt begins."""
        for record in self.records.values():
            if self.run.pipeline.selection.matches(record.table) is not None:
                self.run.progress.set_table(record.table, record.state)
                self.show_pause(record)

    def take_in(self, table: TableId) -> TableRecord:
        """The record of `table`; a new one, PENDING, when it is not known yet."""
        if table not in self.records:
            check(None, Cause.TAKE_IN, TableState.PENDING, str(table))
        return self._store.record(table)

    def begin_attempt(self, records: Iterable[TableRecord]) -> None:
        """Set and show where each of `records` is at the beginning of an attempt; a copy that runs goes on."""
        for record in records:
            if record.copying:
                continue
            error = self._stopped.get(record.table)
            if error is not None:
                self._show_failing(record, Cause.BEGIN_ATTEMPT, error)
            elif self.is_waiting(record):
                self._set(record, Cause.BEGIN_ATTEMPT, TableState.FAILING)
            elif record.pause is not None:
                self.show_waiting(record, Cause.BEGIN_ATTEMPT)
            else:
                pending = record.needs_snapshot
                self._show(record, Cause.BEGIN_ATTEMPT, TableState.PENDING if pending else TableState.REPLICATING)

    # --- it is ready

    def begin_copy(self, record: TableRecord) -> None:
        """The copy of its rows begins."""
        self._show(record, Cause.BEGIN_COPY, TableState.SNAPSHOTTING)

    def end_copy(self, record: TableRecord) -> None:
        """All its rows are at the target; durable when this returns."""
        assert record.snapshot is not None
        self._set(record, Cause.END_COPY, TableState.REPLICATING)
        record.snapshot.done, record.beside = True, False
        record.failing_since, record.released, record.wants_rows = None, False, False
        self._release.forget(record.table)
        self.save(record)
        self.run.progress.set_table(record.table, TableState.REPLICATING)

    def find_copied(self, record: TableRecord) -> None:
        """The target has the whole copy, although the run that made it did not record that; durable when this returns.

        After the table's first batch the target's table names its snapshot no more.
        """
        assert record.snapshot is not None
        self._set(record, Cause.FIND_COPIED, TableState.REPLICATING)
        record.snapshot.done, record.released, record.beside = True, False, False
        self.save()

    def join(self, record: TableRecord) -> None:
        """It takes changes from now on; those of a paused table go to its lane."""
        self._retry_at.pop(record.table, None)
        if record.pause is not None:
            self.show_waiting(record, Cause.JOIN)
        else:
            self._show(record, Cause.JOIN, TableState.REPLICATING)

    def create(self, record: TableRecord) -> None:
        """It was created at the target, and takes changes from now on."""
        self._retry_at.pop(record.table, None)
        self._show(record, Cause.CREATE, TableState.REPLICATING)

    def progressed(self, table: TableId) -> None:
        """Rows or changes of `table` are durable: its next failure begins a new budget, and a new time to hold the log.

        Not the latter for a copy that cannot be resumed: rows of it are no progress before it ends.
        """
        self._budgets.succeeded(table)
        self._tries.wrote(table)
        record = self.records.get(table)
        if record is None or record.failing_since is None:
            return
        if record.snapshot is None or record.snapshot.done or record.snapshot.chunks:
            self._note_works(record)

    def _note_works(self, record: TableRecord) -> None:
        with self._lock:
            if self._release.ended(record):
                self.save()

    # --- it fails

    def fail(self, record: TableRecord, error: Exception, *, read_to: Offset | None = None) -> bool:
        """Stop the table while the others continue: for a while, or until the next start of the run.
        `read_to` is how far the log was read, where it is the reader that failed for the table.

        Returns:
            Whether it is tried again in this run.

        Raises:
            Exception: `error`, when it concerns more than the table, or no other table works and the log cannot go on without this one.
        """
        others = (r for r in self.records.values() if r.selected and r is not record)
        alone = self._can_be_copied_again(record) and has_what_follows(record, read_to)
        goes_on = alone or any(r.state is not TableState.FAILING for r in others)
        isolate = isolates(self.run.config, record, read_to) and goes_on and not self.run.spark.is_dead
        if isinstance(error, DataError | SchemaDriftError):
            error.table = error.table or str(record.table)  # rows and columns are always a table's
        decided = verdict(error, isolate=isolate)
        if decided is Verdict.STOP or not isolate:
            raise error
        delay = self._budgets.next_delay(record.table) if decided is Verdict.RETRY else None
        if delay is None:
            self._stop(record, Cause.FAIL, error, read_to)
            return False
        self.copies.end(record.table)
        self.run.failed(record.table, error, retried_in=delay)
        self._retry_at[record.table] = time.monotonic() + delay
        if self._show_failing(record, Cause.FAIL, error):
            self.save()  # for how long it holds the log goes on over restarts
        return True

    def try_again(self, record: TableRecord) -> None:
        """The wait of the table is over."""
        self._retry_at.pop(record.table, None)

    def stop(self, record: TableRecord, error: Exception) -> None:
        """Stop the table until the next start of the run; durable when this returns.

        A table whose log misses changes is copied again at that start: its snapshot is forgotten here. Where the source takes no snapshots, it is refused from then on, and holds no offset.
        """
        self._stop(record, Cause.STOP, error)

    def _stop(self, record: TableRecord, cause: Cause, error: Exception, read_to: Offset | None = None) -> None:
        self.run.failed(record.table, error)
        self.copies.end(record.table)
        self._stopped[record.table] = error
        self._retry_at.pop(record.table, None)
        if isinstance(error, TableHistoryLostError):
            self._give_history_up(record)
        self._show_failing(record, cause, error)
        if self._can_be_copied_again(record) and self._release.needs_no_log(record, read_to):
            self._give_log_up(record)
        else:
            self.save()

    # --- it has failed for long

    def release_failing(self, taking: Container[TableId]) -> None:
        """Let tables that have failed for too long hold the log no more: each is to be copied again; durable when this returns.

        The wait before that copy grows with every failure, and ends without a restart. A table of a source without snapshots, or that
        keeps rows which the source has deleted, is not copied again: it goes on holding the offset, which is logged once a run.

        Tables that failed in an earlier run, and have no part in this one, are left as they are.

        Args:
            taking: The tables that take changes.
        """
        holding = [r for r in self.records.values() if not r.is_in_log]
        for record in [r for r in holding if r.failing_since is not None and r.table in self._errors]:
            if record.table in taking:
                if self._release.is_passed(record, self.run.saved_offset):
                    self._note_takes(record)
            elif record.state is TableState.FAILING and not record.copying and self._release.is_due(record):
                if self._can_be_copied_again(record):
                    self._give_log_up(record)
                else:
                    self._release.warn_once(record)

    def _can_be_copied_again(self, record: TableRecord) -> bool:
        """Whether a new copy makes the table whole, and removes no rows that are kept on purpose."""
        return self.takes_snapshots and not keeps_deleted_rows(record)

    def _give_log_up(self, record: TableRecord) -> None:
        """Forget the table's copy, so that the offset may move, and let its next copy wait."""
        error = self._errors[record.table]
        self.copies.end(record.table)
        self._retry_at.pop(record.table, None)
        self._budgets.succeeded(record.table)
        self._stopped[record.table] = error
        self._forget_copy(record)
        record.released = True
        self._release.delay_copy(record)
        self._show_failing(record, Cause.RELEASE_FAILING, error)
        record.failing_since = None  # its next copy has as much time
        failpoint("engine.release.before_save")
        self.save()
        failpoint("engine.release.after_save")

    def record_lost_history(self, error: Exception) -> None:
        """Record, before `error` ends the run, that its table is to be copied again where the log misses changes of it."""
        if not isinstance(error, TableHistoryLostError):
            return
        for record in self.records.values():
            if str(record.table) == error.table and record.schemas:
                self.copies.end(record.table)
                self._give_history_up(record)
                self._show_failing(record, Cause.RECORD_LOST_HISTORY, error)
                self.save()

    def _give_history_up(self, record: TableRecord) -> None:
        """The log misses changes of the table: only a copy makes it whole. Without snapshots no later run may read it on."""
        if self.takes_snapshots:
            self._forget_copy(record)
        else:
            record.passed_over, record.selected, record.pause = True, False, None

    # --- it begins again, or ends

    def copy_again(self, record: TableRecord) -> None:
        """Forget its snapshot: an attempt copies it again; durable when this returns."""
        self.copies.end(record.table)
        record.end_resuming()
        self._set(record, Cause.COPY_AGAIN, TableState.PENDING if record.pause is None else TableState.PAUSED)
        self._drop_copy(record)
        self.save()

    def start_over(self, record: TableRecord, *, beside: bool = False) -> None:
        """Forget its snapshot, schemas and scope: an attempt that selects it describes and copies it again, in place unless it was asked to be `beside`."""
        self.copies.end(record.table)
        record.end_resuming()
        self._set(record, Cause.START_OVER, TableState.PENDING if record.pause is None else TableState.PAUSED)
        self._forget_copy(record)
        record.wants_copy, record.beside = False, record.beside and beside

    def want_copy(self, record: TableRecord, request_id: str, *, beside: bool = False) -> None:
        """Have it described and copied again by the next attempt that finds it at the source. The caller saves.

        What is known of the table stays until then: one that the source has dropped still gets its last changes.

        Args:
            record: The table; a copy of it that runs ends, and its failure is forgotten.
            request_id: The request.
            beside: Whether one commit is to replace what the target has.
        """
        self.copies.end(record.table)
        self._forget_failure(record)
        record.resync, record.wants_copy, record.wants_rows, record.beside = request_id, True, True, beside

    def fails(self, record: TableRecord) -> bool:
        """Whether it has failed and was not whole since; what is stored of its state may be older."""
        is_known = record.table in self._stopped or self.is_waiting(record)
        return is_known or record.state is TableState.FAILING or record.failing_since is not None

    def _forget_failure(self, record: TableRecord) -> None:
        self._forget_waits(record)
        self._release.forget(record.table)
        self._tries.forget(record.table)

    def _forget_waits(self, record: TableRecord) -> None:
        self._stopped.pop(record.table, None)
        self._retry_at.pop(record.table, None)
        self._budgets.succeeded(record.table)

    def _drop_copy(self, record: TableRecord) -> None:
        self.copies.end(record.table)
        self._store.note_remains(record)
        record.drop_snapshot()

    def _forget_copy(self, record: TableRecord) -> None:
        self._store.note_remains(record)
        record.forget_copy()

    def rename(self, renames: Sequence[Rename], position: Position, steps: list[RenameStep]) -> None:
        """Tables that take changes have other names from `position` on; durable when this returns.

        Args:
            renames: Which; each name before is gone before the names after are given.
            position: Where.
            steps: What the target is to do; kept until it has.
        """
        renamed = [(self._store.records.pop(rename.former), rename) for rename in renames]
        for record, rename in renamed:
            record.rename(position, rename.table)
            self._store.records[rename.table] = record
            self._set(record, Cause.RENAME, record.state)
        renamed[0][0].renames = steps
        self.save()
        names = {rename.former: rename.table for rename in renames}
        self.run.rename_tables(names)
        for record, _ in renamed:
            self.run.progress.set_table(record.table, record.state)

    def end_rename(self, done: int) -> None:
        """The target has done the first `done` steps of those that are kept; durable when this returns."""
        for record in self.records.values():
            del record.renames[:done]
        self.save()

    def may_discard(self, remains: Remains) -> bool:
        """Whether the target may delete this: no table goes on with that plan, and none has the name of a table put aside."""
        record = self.records.get(remains.table)
        if record is None:
            return True
        plan = record.snapshot
        return bool(remains.snapshot_id) and (plan is None or plan.snapshot_id != remains.snapshot_id)

    def forget_remains(self, discarded: Collection[Remains]) -> None:
        """The target has deleted these; durable when this returns."""
        self._store.remains.forget(discarded)
        self.save()

    def forget(self, table: TableId) -> None:
        """It is replicated no more, and its target stays as it is; durable when this returns."""
        self.copies.end(table)
        record = self.records.get(table)
        if record is not None:
            check(record.state, Cause.FORGET, None, str(table))
            self._store.forget(record)
        self._release.forget(table)
        self._stopped.pop(table, None)
        self.save()
        self.run.progress.forget_table(table)
        self.run.metrics.forget_gauges(table)

    # --- changes of state

    def _set(self, record: TableRecord, cause: Cause, after: TableState) -> None:
        with self._lock:
            check(record.state, cause, after, str(record.table))
            record.state = after
            if after is not TableState.FAILING:
                record.error = None

    def _show(self, record: TableRecord, cause: Cause, after: TableState) -> None:
        self._set(record, cause, after)
        self.run.progress.set_table(record.table, after)

    def _show_failing(self, record: TableRecord, cause: Cause, error: Exception) -> bool:
        """It holds the log from now on; returns whether that is new."""
        self._set(record, cause, TableState.FAILING)
        record.error = dict(error_view(error))
        self._errors[record.table] = error
        without_values(error)
        is_new = self._release.holds(record)
        self.run.progress.set_table(record.table, TableState.FAILING, error)
        again_at = self._release.copy_again_at(record) if self._can_be_copied_again(record) else None
        self.run.progress.set_failing(record.table, record.failing_since, again_at)
        return is_new
