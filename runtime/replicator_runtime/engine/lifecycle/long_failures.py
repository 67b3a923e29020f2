"""The part of a table's life in which it fails for long: its changes go to a lane, and the source's log is held for it no more."""

from __future__ import annotations

import math
import time
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import structlog

from replicator_runtime.engine.lifecycle.transitions import Cause
from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_runtime.engine.run_state.progress import error_view
from replicator_runtime.engine.run_state.retry_budget import growing_wait
from replicator_runtime.engine.run_state.unknown_errors import without_values
from replicator_runtime.engine.tables.pause import Pause
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import DataError, RetryableError, SchemaDriftError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from replicator_runtime.config.model import PipelineConfig
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.run_state.spark_handle import SparkHandle
    from replicator_runtime.engine.tables.last_positions import LastPositions
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId

register("engine.long_failure.before_save", "engine.long_failure.after_save")
register("engine.long_failure.refused", "engine.long_failure.refusal_saved")
log = structlog.get_logger()
_NO_LANE = "the target does not say how far the table is, and took nothing of other tables since it fails"


class LaneTries:
    """When the lanes of failing tables are given to the target again; by the process's clock, so that a start tries at once.

    Used by the engine's main thread.

    Args:
        max_delay_seconds: The longest wait.
    """

    def __init__(self, max_delay_seconds: float) -> None:
        self._max_delay_seconds = max_delay_seconds
        self._at: dict[TableId, float] = {}
        self._tries: dict[TableId, int] = {}
        self._begin_at: dict[TableId, float] = {}
        self._written_at: dict[TableId, float] = {}

    @property
    def next_at(self) -> float:
        """When the first of them is; infinite when none waits."""
        return min(self._at.values(), default=math.inf)

    def delay(self, table: TableId) -> float:
        """Let the table wait, longer than the last time; returns the seconds."""
        tries = self._tries[table] = self._tries.get(table, 0) + 1
        seconds = growing_wait(tries, self._max_delay_seconds)
        self._at[table] = time.monotonic() + seconds
        return seconds

    def put_off(self, table: TableId) -> None:
        """Its lane cannot begin now: that is tried again when its wait is over, and the table meanwhile."""
        self._begin_at[table] = self._at.pop(table, -math.inf)

    def may_begin(self, table: TableId) -> bool:
        """Whether its lane was not put off, or the wait is over."""
        return self._begin_at.get(table, -math.inf) <= time.monotonic()

    def wrote(self, table: TableId) -> None:
        """The target has committed rows or changes of the table. Safe from any thread."""
        self._written_at[table] = time.time()

    def other_wrote(self, table: TableId, since: float) -> bool:
        """Whether the target has committed rows or changes of another table since then, in this run."""
        return any(at >= since for other, at in list(self._written_at.items()) if other != table)

    def waits(self, table: TableId) -> bool:
        """Whether the table is not to be tried yet."""
        return self._at.get(table, -math.inf) > time.monotonic()

    def again_at(self, table: TableId) -> float | None:
        """When it is tried, in seconds since 1970; None while it is, or when it is not known here."""
        at = self._at.get(table)
        return None if at is None else time.time() + at - time.monotonic()

    def keep_waiting(self, tables: Container[TableId]) -> None:
        """An attempt begins: the wait is over for those that are due, and for all that are not in `tables`."""
        self._at = {table: at for table, at in self._at.items() if table in tables and self.waits(table)}

    def forget(self, table: TableId) -> None:
        """It works, or an operator asked for something: the next failure counts as the first."""
        self._at.pop(table, None)
        self._tries.pop(table, None)
        self._begin_at.pop(table, None)


class _Run(Protocol):
    """What is used of the run here."""

    progress: Progress
    spark: SparkHandle

    @property
    def config(self) -> PipelineConfig:
        """The pipeline's."""

    def failed(self, table: TableId, error: Exception, *, retried_in: float) -> None:
        """See `Run.failed`."""


class _Release(Protocol):
    """What is used of `LogRelease` here."""

    @property
    def next_copy(self) -> float:
        """When the first copy is due."""

    def began(self, record: TableRecord) -> bool:
        """The table fails."""


class LongFailures(ABC):
    """What `TableLifecycle` does for tables that have failed for `failingTables.laneAfterMinutes`. Used by the engine's main thread.

    Such a table has a pause that no operator asked for (`Pause.failed`), and with it a lane. It is FAILING in every other way. Now
    and then the lane is given to the target (`Pause.resuming`), as that of a table that is resumed; this is not stored, since it
    follows from the waits of this process. Where the lane begins is kept all the time, and its files stay until it is drained, so that
    it is opened without a question to the target, which may not answer.
    """

    run: _Run
    takes_snapshots: bool
    takes_lanes: bool
    reads_tables_alone: bool = False
    """Whether the source's log serves as lanes, since it is read again for one table alone; known once an attempt has begun."""
    positions: LastPositions
    _tries: LaneTries
    _errors: dict[TableId, Exception]
    _release: _Release

    @property
    @abstractmethod
    def records(self) -> Mapping[TableId, TableRecord]:
        """As `TableLifecycle.records`."""

    @abstractmethod
    def save(self, record: TableRecord | None = None) -> None:
        """As `TableLifecycle.save`."""

    @abstractmethod
    def _set(self, record: TableRecord, cause: Cause, after: TableState) -> None: ...

    @abstractmethod
    def _can_be_copied_again(self, record: TableRecord) -> bool: ...

    @abstractmethod
    def _forget_failure(self, record: TableRecord) -> None: ...

    @abstractmethod
    def _forget_waits(self, record: TableRecord) -> None: ...

    @abstractmethod
    def _note_works(self, record: TableRecord) -> None: ...

    @abstractmethod
    def _give_log_up(self, record: TableRecord) -> None: ...

    @property
    def lane_errors(self) -> Mapping[TableId, Exception]:
        """The errors of failing tables whose changes go to lanes."""
        failing = [r for r in self.records.values() if r.fails_in_lane and r.state is TableState.FAILING]
        return {r.table: self._error_of(r) for r in failing}

    @property
    def next_copy(self) -> float:
        """When a table that gave the log up, or a lane, is tried by another attempt, on this process's clock; infinite when none is."""
        return min(self._release.next_copy, self._tries.next_at)

    def retry_now(self, record: TableRecord) -> None:
        """Let the next attempt try the table, or give the target its lane, without any wait."""
        self._forget_failure(record)
        self.try_lanes()

    def let_failing_go(self, taking: Container[TableId]) -> bool:
        """Let tables that have failed for so long begin lanes in the next attempt; durable when this returns.

        Only where the table fails and not the target: when that is away, lanes would fill for nothing. A table needs a whole
        copy, and one that a new copy can replace should the lane pass its bounds; others hold the log as before. Where the source's log
        serves as lanes there is neither. A table that was resumed goes on with the lane that it has.

        Args:
            taking: The tables that take changes.

        Returns:
            Whether there are any: another attempt is to begin.
        """
        minutes = self.run.config.failing_tables.lane_after_minutes
        if minutes is None or not (self.takes_lanes and (self.takes_snapshots or self.reads_tables_alone)):
            return False
        due = [
            r for r in self.records.values() if self._may_have_lane(r, taking) and self._failed_for(r, 60.0 * minutes)
        ]
        due = [record for record in due if self._fails_alone(record)]
        if not due:
            return False
        for record in due:
            record.pause = record.pause or Pause(uuid.uuid4().hex, "", time.time())
            record.pause.failed, record.pause.resuming = True, False
            self._forget_waits(record)
            self._tries.delay(record.table)
        failpoint("engine.long_failure.before_save")
        self.save()
        failpoint("engine.long_failure.after_save")
        return True

    def _may_have_lane(self, record: TableRecord, taking: Container[TableId]) -> bool:
        fails = record.state is TableState.FAILING and record.table in self._errors
        fails &= record.pause is None or (record.pause.resuming and not (record.pause.failed or record.is_in_log))
        is_whole = record.selected and not (record.awaits_copy or record.copying or record.released)
        free = record.table not in taking and self._tries.may_begin(record.table)
        return fails and is_whole and free and (self.reads_tables_alone or self._can_be_copied_again(record))

    def _fails_alone(self, record: TableRecord) -> bool:
        """Whether it is the table that fails, as far as that is known without a question to the target.

        A table without changes counts as working also while the target is away. So it says nothing, unless this is the only one
        that fails: then the target is asked how far it is before its lane begins (`is_target_at_work`).
        """
        others = [r for r in self.records.values() if r.selected and r is not record]
        works = [r for r in others if r.state is not TableState.FAILING]
        return bool(works) and (len(works) == len(others) or self.is_target_at_work(record, self._errors[record.table]))

    def is_target_at_work(self, record: TableRecord, error: Exception) -> bool:
        """Whether `error` is one of the table itself: of a value or column of it, or the target took another table's changes since it fails."""
        is_its_own = isinstance(error, DataError | SchemaDriftError)
        return is_its_own or self._tries.other_wrote(record.table, record.failing_since or time.time())

    def _failed_for(self, record: TableRecord, seconds: float) -> bool:
        return record.failing_since is not None and time.time() >= record.failing_since + seconds

    def try_lanes(self) -> None:
        """An attempt begins: the lanes whose wait is over are given to the target. A lane that did not begin is forgotten: the table is tried."""
        failing = {record.table: record for record in self.records.values() if record.fails_in_lane}
        for table, record in failing.items():
            assert record.pause is not None
            if record.pause.base is None and not self._tries.waits(table):
                record.pause = None  # a run was killed before its lane began
            else:
                record.pause.resuming = not self._tries.waits(table)
                self._errors.setdefault(table, self._error_of(record))  # so that it is seen to have passed
        self._tries.keep_waiting({t for t, r in failing.items() if r.pause is not None})

    def cannot_begin_lane(self, record: TableRecord, error: Exception) -> None:
        """The target may be away: the table goes on holding the offset, and is tried as before. Durable when this returns."""
        log.warning("table.has_no_lane", table=str(record.table), why=_NO_LANE)
        record.pause = None
        self._tries.put_off(record.table)
        self._errors[record.table] = error
        self.save()

    def fail_lane(self, record: TableRecord, error: Exception) -> None:
        """The target did not take its lane: its changes go to it, and it is tried again later; durable when this returns.

        What the target is known to have of it counts for its bounds no more: the lane begins later from now on.

        Raises:
            Exception: `error`, when it concerns more than the table.
        """
        isolate = self.run.config.on_table_error == "isolate" and not self.run.spark.is_dead
        if not isolate or verdict(error, isolate=isolate) is Verdict.STOP:
            raise error
        assert record.pause is not None
        record.pause.resuming = False
        reached = self.positions.last(record.table, record.copy_id)
        if record.pause.base is not None and reached is not None and record.pause.base < reached:
            record.pause.base = reached
        seconds = self._tries.delay(record.table)
        self.run.failed(record.table, error, retried_in=seconds)
        self._errors[record.table] = error
        without_values(error)
        record.error = dict(error_view(error))
        self._release.began(record)
        self.show_waiting(record, Cause.FAIL_LANE)
        failpoint("engine.long_failure.refused")
        self.save()
        failpoint("engine.long_failure.refusal_saved")

    def _note_takes(self, record: TableRecord) -> None:
        """The saved offset has moved while the table took changes, itself or its lane."""
        if not record.fails_in_lane or record.pause is None:
            self._note_works(record)
        elif record.pause.holds_since is not None:
            record.pause.holds_since = None
            self.save()

    def show_waiting(self, record: TableRecord, cause: Cause) -> None:
        """Show a table that has a pause: PAUSED, or FAILING with its error and when it is tried again."""
        if not record.fails_in_lane:
            self._set(record, cause, TableState.PAUSED)
            self.run.progress.set_table(record.table, TableState.PAUSED)
        else:
            self._set(record, cause, TableState.FAILING)
            self.run.progress.set_table(record.table, TableState.FAILING, self._error_of(record))
            self.run.progress.set_failing(record.table, record.failing_since, None)
        self.show_pause(record)

    def drop_failed_lane(self, record: TableRecord) -> None:
        """Its lane is of no use any more: it gives the log up, as one that has failed for too long; durable when this returns."""
        record.pause = None
        self._errors[record.table] = self._error_of(record)
        self._tries.forget(record.table)
        self._give_log_up(record)

    def _error_of(self, record: TableRecord) -> Exception:
        """Its last error; as it was stored, when an earlier run met it."""
        known = self._errors.get(record.table)
        if known is not None:
            return known
        stored = record.error or {}
        return RetryableError(
            stored.get("message") or "the table failed in an earlier run",
            code=stored.get("code") or "RPL-4001",
            hint=stored.get("hint") or "the run tries it again by itself",
            table=str(record.table),
        )

    @abstractmethod
    def show_pause(self, record: TableRecord) -> None:
        """As `TableLifecycle.show_pause`."""
