"""The progress of a run; read by the command line, the status file and tests."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from replicator_runtime.engine.run_state.last_errors import LastErrors
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.views.phases import ENDED
from replicator_runtime.observability.redaction import redact
from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_runtime.engine.run_state.last_errors import LastError
    from replicator_runtime.engine.views.source_view import SourceView

_Known = TypeVar("_Known")
_NOT_READING = frozenset({"retrying", "snapshot", "paused"})
SILENT_SECONDS = 12.0
"""A source that can be asked every few seconds and has not answered for so long is taken for one that is away."""
_IDLE_SECONDS = 2.0
_FAILING = frozenset({"retrying", "failed"})


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task of a table's maintenance.

    Attributes:
        name: The task.
        done_at: When it was done last, in seconds since 1970; None when it never was.
        error: Why it failed last; empty when it has been done since.
    """

    name: str
    done_at: float | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class PauseView:
    """A pause of a table.

    Attributes:
        since: When it began, in seconds since 1970.
        resuming: Whether the target is given what came meanwhile.
        copied_again: Whether the table is copied again when it is resumed, since it has no lane.
        lane_rows: Changes in its lane.
        lane_bytes: Bytes stored of it.
        asks: The changes of structure that an operator is to decide on; empty when there are none.
        failed: Whether no operator has paused it: it has failed for long.
        tried_at: When the target is given the lane of such a table again, in seconds since 1970; None while it is, or when no time is set.
        is_open: Whether its changes go to its lane now.
        oldest_at: When the oldest change in the lane was written there, in seconds since 1970; None when there is none.
        in_log: Whether the source's log keeps the changes: rows are records there, of other tables also where they are in one topic,
            bytes those at the source, and nothing in it is older than the pause.
    """

    since: float
    resuming: bool
    copied_again: bool
    lane_rows: int = 0
    lane_bytes: int = 0
    asks: str = ""
    failed: bool = False
    tried_at: float | None = None
    is_open: bool = False
    oldest_at: float | None = None
    in_log: bool = False


@dataclass(frozen=True, slots=True)
class TableView:
    """One table at one moment.

    Attributes:
        table: Which.
        state: Its state.
        rows: Rows copied while SNAPSHOTTING, changes applied afterwards, in this run.
        snapshot_percent: Of the snapshot, 0 to 100; None when there is none.
        snapshot_seconds_left: Estimated; None when unknown.
        rows_per_second: Over the last ten seconds.
        lag_seconds: While it replicates, 0 (or what the source is late itself) when none of its changes waits, and else no more than the
            run's. The same while its lane is empty; else the time since the oldest change was put into it. While it is copied, or
            failing without a lane, the age of the last change applied. None when unknown, or when the run has ended.
        error: One line; empty when fine.
        error_parts: Code, message and hint of the same error, as `error_view` makes them; None when fine.
        failing_since: When it began to fail, in seconds since 1970; None when fine.
        copy_again_at: When it is copied again unless it works before, in seconds since 1970: until its copy it holds the source's
            log no more. None when fine, or when it cannot be copied.
        maintenance: Its tasks, by name.
        last_error: Its error, or the one that it had until lately; None when it had none.
        pause: Since when it is paused, and what came meanwhile; None when it is not.
        waits_for: What it waits for before it is copied again, for people; empty when it does not wait.
    """

    table: TableId
    state: TableState = TableState.PENDING
    rows: int = 0
    snapshot_percent: float | None = None
    snapshot_seconds_left: float | None = None
    rows_per_second: float = 0.0
    lag_seconds: float | None = None
    error: str = ""
    error_parts: Mapping[str, str] | None = None
    failing_since: float | None = None
    copy_again_at: float | None = None
    maintenance: tuple[TaskView, ...] = ()
    last_error: LastError | None = None
    pause: PauseView | None = None
    waits_for: str = ""

    @property
    def holds_log(self) -> bool:
        """Whether it fails and has no lane that takes its changes, until it is copied again."""
        return self.state is TableState.FAILING and self.copy_again_at is not None


@dataclass(frozen=True, slots=True)
class RunView:
    """A whole run at one moment.

    Attributes:
        phase: One of starting, snapshot, streaming, retrying, paused, stopping, maintenance, done, failed.
        lag_seconds: The age of the oldest change not applied; 0 (or what the source is late itself) when everything read is applied and the
            source answers; while nothing is read, the time since the run was last current. None when unknown, or when the run has ended.
        read_lag_seconds: The part of it that reading is late: the rest is time between reading and the target's commit. None when unknown.
        source: What the source said of itself last; None when it has not, or cannot be asked.
        current_at: When the run was last current, that is when everything read was applied, in seconds since 1970; None
            when it was not yet.
        last_error: The error of the run as a whole, such as of its source, or the one that it had until lately; None when it
            had none.
        silent_seconds: For how long a source that can be asked has neither answered nor been read; 0 while that is not long.
        is_failing: Whether the run as a whole fails now, or has: source, target or state do not answer, say.
        waiting_bytes: Bytes that were read and wait in memory.
        doing: What the run waits for before its stream begins; empty afterwards.
    """

    phase: str
    tables: tuple[TableView, ...]
    rows_per_second: float
    lag_seconds: float | None
    message: str = ""
    current_at: float | None = None
    last_error: LastError | None = None
    is_failing: bool = False
    waiting_bytes: int = 0
    read_lag_seconds: float | None = None
    source: SourceView | None = None
    silent_seconds: float = 0.0
    doing: str = ""


@dataclass(slots=True)
class _Meter:
    """Rows over the last ten seconds."""

    points: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=1000))

    def add(self, rows: int) -> None:
        self.points.append((time.monotonic(), rows))

    def rate(self) -> float:
        now = time.monotonic()
        while self.points and now - self.points[0][0] > 10:
            self.points.popleft()
        if not self.points:
            return 0.0
        return sum(rows for _, rows in self.points) / max(1.0, now - self.points[0][0])


def error_view(error: BaseException) -> Mapping[str, str]:
    """What is stored and shown of an error, without secrets."""
    return {
        "code": getattr(error, "code", ""),
        "message": redact(getattr(error, "message", summary(error))),
        "hint": redact(getattr(error, "hint", "")),
    }


class Progress:
    """Collects what the engine reports. Safe from any thread; readers take `snapshot()`, a consistent copy.

    Attributes:
        copied_rows: Rows copied so far; never falls, so that more of them means progress.
        applied_rows: The same of the stream's changes.
        retried_error: What ended the last attempt; shown while the run waits for and begins the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[TableId, TableView] = {}
        self._meters: dict[TableId, _Meter] = {}
        self._snapshot_began: dict[TableId, tuple[float, float]] = {}
        self._applied_at: dict[TableId, int] = {}
        self._maintenance: dict[TableId, dict[str, TaskView]] = {}
        self._read_until = -1
        self._caught_up = False
        self._caught_up_at: float | None = None
        self._waiting: frozenset[TableId] | None = None
        self._waiting_bytes = 0
        self._read_newest = -1
        self._heard_at = time.monotonic()
        self._source: SourceView | None = None
        self.copied_rows = 0
        self.applied_rows = 0
        self.phase = "starting"
        self.message = ""
        self._doing = ""
        self._last_errors = LastErrors()
        self._source_error: Exception | None = None
        self.retried_error: Exception | None = None

    @property
    def source_error(self) -> Exception | None:
        """What the source reported last; None when it is fine."""
        return self._source_error

    @source_error.setter
    def source_error(self, error: Exception | None) -> None:
        with self._lock:
            before, self._source_error = self._source_error, error
            if error is not None and error is not before:
                self._last_errors.came(None, error_view(error))
            elif error is None and before is not None:
                self._last_errors.went(None)

    def take_over(self, status: Mapping[str, Any]) -> None:
        """Show the errors that the status of an earlier run shows until they have been away for long."""
        with self._lock:
            at = str(status["updated"])
            self._last_errors.take_over(None, status.get("sourceError") or status.get("lastError"), at)
            for table in status.get("tables", ()):
                place = TableId(table["database"], table["table"], table["schema"])
                self._last_errors.take_over(place, table.get("error") or table.get("lastError"), at)

    def set_phase(self, phase: str, message: str = "") -> None:
        """Name what the run as a whole is doing."""
        self.phase, self.message = phase, message

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """While it is entered, `what` is what the run does before its stream begins: words for people."""
        self._doing = what
        try:
            yield
        finally:
            self._doing = ""

    def set_table(self, table: TableId, state: TableState, error: Exception | None = None) -> None:
        """A table's state changed; `error` is why it fails."""
        with self._lock:
            view = self._tables.get(table, TableView(table))
            changed = state is not view.state
            if changed and state is TableState.REPLICATING:
                self._meters.pop(table, None)
            rows = 0 if changed and state in (TableState.SNAPSHOTTING, TableState.REPLICATING) else view.rows
            percent = view.snapshot_percent if state is TableState.SNAPSHOTTING else None
            text, parts = ("", None) if error is None else (redact(summary(error)), error_view(error))
            if parts is not None:
                if parts != view.error_parts:
                    self._last_errors.came(table, parts)
            elif view.error_parts is not None:
                self._last_errors.went(table)
            self._tables[table] = replace(
                view,
                state=state,
                error=text,
                error_parts=parts,
                rows=rows,
                snapshot_percent=percent,
                failing_since=None,
                copy_again_at=None,
                pause=view.pause if state in (TableState.PAUSED, TableState.FAILING) else None,
            )

    def set_pause(self, table: TableId, since: float, *, resuming: bool, copied_again: bool, asks: str = "") -> None:
        """A table is paused; the values are those of `PauseView`."""
        with self._lock:
            view = self._tables.get(table, TableView(table))
            before = (
                view.pause if view.pause is not None and not copied_again else PauseView(since, resuming, copied_again)
            )
            shown = replace(before, since=since, resuming=resuming, copied_again=copied_again, asks=asks)
            self._tables[table] = replace(view, pause=replace(shown, failed=False, tried_at=None))

    def set_failed_lane(self, table: TableId, tried_at: float | None) -> None:
        """The pause of the table is one that no operator asked for; the value is that of `PauseView`."""
        with self._lock:
            view = self._tables.get(table)
            if view is not None and view.pause is not None:
                self._tables[table] = replace(view, pause=replace(view.pause, failed=True, tried_at=tried_at))

    def set_lane(
        self, table: TableId, rows: int, nbytes: int, oldest_at: float | None, *, in_log: bool = False
    ) -> None:
        """The changes of a paused table go to its lane, or stay in the source's log, which has so many, with so many bytes, since then."""
        with self._lock:
            view = self._tables.get(table)
            if view is not None and view.pause is not None:
                lane = replace(
                    view.pause, lane_rows=rows, lane_bytes=nbytes, is_open=True, oldest_at=oldest_at, in_log=in_log
                )
                self._tables[table] = replace(view, pause=lane)

    def set_failing(self, table: TableId, since: float | None, copy_again_at: float | None) -> None:
        """A table is failing since then, and is copied again at the other time; in seconds since 1970."""
        with self._lock:
            view = self._tables.get(table, TableView(table))
            self._tables[table] = replace(view, failing_since=since, copy_again_at=copy_again_at)

    def set_waiting(self, table: TableId, waits_for: str) -> None:
        """What a table waits for before it is copied again; empty when it does not wait. One that is not shown stays so."""
        with self._lock:
            if (view := self._tables.get(table)) is not None:
                self._tables[table] = replace(view, waits_for=waits_for)

    def rename_tables(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once; what is known of each stays."""
        with self._lock:
            _rename(self._tables, names)
            _rename(self._meters, names)
            _rename(self._snapshot_began, names)
            _rename(self._applied_at, names)
            _rename(self._maintenance, names)
            for table in names.values():
                if table in self._tables:
                    self._tables[table] = replace(self._tables[table], table=table)

    def forget_table(self, table: TableId) -> None:
        """A table is no longer replicated."""
        with self._lock:
            self._tables.pop(table, None)

    def snapshot_chunks(self, table: TableId, rows: int, done: int, total: int) -> None:
        """`rows` more rows were copied; `done` of `total` chunks are in."""
        with self._lock:
            view = self._tables.get(table, TableView(table))
            percent = 100.0 * done / max(1, total)
            began, at = self._snapshot_began.setdefault(table, (time.monotonic(), percent))
            left = (time.monotonic() - began) * (100 - percent) / (percent - at) if percent > at else None
            self._meters.setdefault(table, _Meter()).add(rows)
            self.copied_rows += rows
            self._tables[table] = replace(
                view, rows=view.rows + rows, snapshot_percent=percent, snapshot_seconds_left=left
            )

    def maintained(self, table: TableId, task: str, done_at: float | None, error: str) -> None:
        """A task of the table's maintenance was done, or failed; the values are those of `TaskView`."""
        with self._lock:
            self._maintenance.setdefault(table, {})[task] = TaskView(task, done_at, error)

    def applied(self, table: TableId, rows: int, source_timestamp: int) -> None:
        """`rows` changes, the last committed at `source_timestamp` (µs since 1970), are durable at the target."""
        with self._lock:
            view = self._tables.get(table, TableView(table))
            self._meters.setdefault(table, _Meter()).add(rows)
            self.applied_rows += rows
            self._tables[table] = replace(view, rows=view.rows + rows)
            self._applied_at[table] = max(source_timestamp, self._applied_at.get(table, -1))

    def read(
        self,
        caught_up: bool,
        source_timestamp: int,
        waiting: frozenset[TableId] | None = None,
        nbytes: int = 0,
        newest: int = -1,
    ) -> None:
        """Everything read is applied (`caught_up`), or the oldest unapplied change was committed at the time given.

        Args:
            caught_up: Which of the two.
            source_timestamp: In µs since 1970.
            waiting: The tables that have changes which wait; None when any of them may.
            nbytes: Bytes that were read and wait in memory.
            newest: When the newest change read was committed, likewise; -1 when that is not known.
        """
        with self._lock:
            self._waiting_bytes, self._read_newest = nbytes, newest
            self._caught_up, self._read_until, self._waiting = caught_up, source_timestamp, waiting
            if caught_up:
                self._caught_up_at = time.time()

    def heard(self) -> None:
        """Something was read from the source."""
        self._heard_at = time.monotonic()

    def answered(self, source: SourceView) -> None:
        """The source has answered."""
        with self._lock:
            self._source, self._heard_at = source, time.monotonic()

    def age(self, timestamp: int) -> float | None:
        """Seconds since a time of the source's clock in µs since 1970; None for -1, when the time is not known."""
        with self._lock:
            return None if timestamp < 0 else self._age(timestamp)

    def snapshot(self) -> RunView:
        """A consistent copy of all of it."""
        with self._lock:
            lag, read_lag, source = self._lag(), self._read_lag(), self._source
            tables = tuple(
                replace(
                    view,
                    rows_per_second=self._meters[table].rate() if table in self._meters else 0.0,
                    lag_seconds=self._lag_of(view, lag),
                    last_error=self._last_errors.recent(table),
                    maintenance=tuple(task for _, task in sorted(self._maintenance.get(table, {}).items())),
                )
                for table, view in sorted(self._tables.items())
            )
            silent = self._silent_seconds()
            current_at, last_error, nbytes = self._caught_up_at, self._last_errors.recent(None), self._waiting_bytes
        speed, phase = sum(t.rows_per_second for t in tables), self.phase
        is_failing = self.source_error is not None or phase in _FAILING
        return RunView(
            phase,
            tables,
            speed,
            lag,
            self.message,
            current_at,
            last_error,
            is_failing,
            nbytes,
            read_lag,
            source,
            silent,
            self._doing,
        )

    @property
    def _is_reading(self) -> bool:
        """Whether the source answers; otherwise nothing is known of it, and the lag may be as long as that lasts."""
        return self.phase not in _NOT_READING and self.source_error is None and self._silent_seconds() == 0

    def _silent_seconds(self) -> float:
        """For how long a source that can be asked has neither answered nor been read; 0 while that is not long."""
        silent = time.monotonic() - self._heard_at
        return silent if self._source is not None and silent > SILENT_SECONDS else 0.0

    def _lag(self) -> float | None:
        if self.phase in ENDED:
            return None
        if self._caught_up and self._caught_up_at is not None:
            since = 0.0 if self._is_reading else max(time.time() - self._caught_up_at, self._silent_seconds())
            return max(self._source_late(), since)
        return None if self._read_until < 0 else self._age(self._read_until)

    def _source_late(self) -> float:
        """How late the source itself is, as it said last."""
        return 0.0 if self._source is None else self._source.health.late_seconds or 0.0

    def _read_lag(self) -> float | None:
        lag = self._lag()
        if lag is None or not self._is_reading or (self._caught_up and self._caught_up_at is not None):
            return lag
        if time.monotonic() - self._heard_at > _IDLE_SECONDS:
            return 0.0  # nothing comes from a source that answers: what waits is the target's
        return None if self._read_newest < 0 else min(lag, self._age(self._read_newest))

    def _age(self, timestamp: int) -> float:
        """Seconds since a time of the source's clock in µs since 1970; not negative where the clocks' difference is not known."""
        ahead = 0.0 if self._source is None or self._source.clock_ahead is None else self._source.clock_ahead
        return max(0.0, time.time() + ahead - timestamp / 1e6)

    def _lag_of(self, view: TableView, of_the_run: float | None) -> float | None:
        if self.phase in ENDED:
            return None
        has_lane = view.pause is not None and view.pause.is_open and not view.holds_log
        if has_lane and view.pause is not None and view.pause.oldest_at is not None:
            return max(0.0, time.time() - view.pause.oldest_at)
        if view.state is not TableState.REPLICATING and not has_lane:
            applied_at = self._applied_at.get(view.table, -1)
            return None if applied_at < 0 else self._age(applied_at)
        is_waiting = self._waiting is None or view.table in self._waiting
        return of_the_run if is_waiting or not self._is_reading else self._source_late()


def _rename(known: dict[TableId, _Known], names: Mapping[TableId, TableId]) -> None:
    known.update({names[table]: known.pop(table) for table in names if table in known})
