"""One attempt's streaming from a distributed log: each slice is planned, stored, applied by executors and saved.

The engine holds no row. Order between slices is what keeps a key's changes in order; inside a slice a key lives in one
partition.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Protocol

from replicator_runtime.engine.apply.active_tables import ActiveTables
from replicator_runtime.engine.apply.periodic_work import PeriodicWork
from replicator_runtime.engine.apply.rejoining import Rejoining
from replicator_runtime.engine.batching.batch_interval import BatchInterval
from replicator_runtime.engine.batching.batching import Batcher
from replicator_runtime.engine.lanes.lanes import Lanes
from replicator_runtime.engine.maintenance.beside_stream import BesideStream
from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.slices.slice_applier import SliceApplier
from replicator_runtime.engine.slices.slice_schemas import SliceSchemas
from replicator_runtime.engine.slices.slice_size import SliceSize
from replicator_runtime.engine.slices.slice_store import SliceStore
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.maintenance.maintenance import Maintenance
    from replicator_sdk import DistributedLog, LogSlice, Offset, RangeConsumer, TableId

register("engine.slice.planned", "engine.slice.applied")
_IDLE_SECONDS = 0.2


class Late(Protocol):
    """What is used of `LateTables` here."""

    @property
    def are_reading(self) -> bool:
        """As `LateTables.are_reading`."""

    @property
    def may_join(self) -> bool:
        """As `LateTables.may_join`."""

    def begin(self, slice_store: SliceStore) -> None:
        """As `LateTables.begin`."""

    def keep(self) -> None:
        """As `LateTables.keep`."""

    def step(self) -> bool:
        """As `LateTables.step`."""

    def join(self) -> None:
        """As `LateTables.join`."""


class DistributedStream:
    """Used by the engine's main thread, once.

    Args:
        lifecycle: Of all tables.
        source: Initialised.
        consumer: Started.
        watermarks: From where on each table takes changes.
        maintenance: The run's.
        late: Reads the tables that are before the saved offset, since the log keeps their changes.
        began: When the attempt began, on this process's clock.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        source: DistributedLog,
        consumer: RangeConsumer,
        watermarks: dict[TableId, TableWatermark],
        maintenance: Maintenance,
        late: Late,
        began: float,
    ) -> None:
        self._lifecycle = lifecycle
        self._run = run = lifecycle.run
        self._maintenance = maintenance
        self._began = began
        self._source = source
        self._consumer = consumer
        self._watermarks = watermarks
        self._late = late
        self._limits = run.limits
        self._size = SliceSize(self._limits, consumer.slice_interval)
        self._interval = BatchInterval(self._limits.max_interval_seconds)
        self._slice_store = SliceStore(run.store, run.read_offset)
        self._next_at = run.next_slice_at
        self._failures = 0
        self._late_is_busy = False
        self._doubtful: set[Offset] = set()
        """Positions, certain or possible, of tables that no longer take changes."""

    def run(self, start: Offset, goal: Offset | None) -> None:
        """Stream until the run is to stop or `goal` is durable.

        Args:
            start: The offset to begin after, as the source said.
            goal: The offset to stop at; None to go on for ever.

        Raises:
            Rejoin: When a table that failed is to be tried again, or an operator asks for something.
            Exception: What source or target failed with.
        """
        self._begin(start)
        try:
            self._stream(goal)
        finally:
            self._beside.close()
            with contextlib.suppress(ReplicatorError):  # what ends the attempt counts; the target knows most of it, too
                self._late.keep()

    def _stream(self, goal: Offset | None) -> None:
        while not self._run.stop.is_set() and not self._reached(goal):
            if (left := self._next_at - time.monotonic()) > 0:
                self._rest(min(left, _IDLE_SECONDS))
            else:
                self._advance(goal)
            self._late_is_busy = self._late.step()
            self._run_periodic_work()
        self._run.progress.set_phase("stopping")

    def _advance(self, goal: Offset | None) -> None:
        """Apply the next slice, if there is one."""
        began = time.monotonic()
        piece = self._plan(goal)
        self._run.progress.heard()
        if piece is None:
            self._rejoining.at_the_end()
            self._run.progress.read(True, -1)
            self._rest(0.0 if self._late_is_busy else _IDLE_SECONDS)
            return
        is_costly = True  # as is what fails: the target may have loaded it
        try:
            is_costly = self._take(piece)
        finally:
            pause = self._pause(piece, goal, is_costly=is_costly)
            self._next_at = began + pause
            self._run.next_slice_at = began + min(pause, self._consumer.slice_interval)

    def _pause(self, piece: LogSlice, goal: Offset | None, *, is_costly: bool) -> float:
        """How long after the beginning of `piece` the next slice may begin."""
        between = self._consumer.slice_interval if is_costly else 0.0
        if self._size.is_full(piece.estimated_bytes):
            return between
        return 0.0 if goal is not None else max(between, self._interval.seconds())

    def _begin(self, start: Offset) -> None:
        run = self._run
        self._current, sequence = start, run.saved_sequence
        # Nothing is gathered here: rows never pass the driver.
        nothing = Batcher(
            (start, sequence), self._watermarks, generation=run.generation, epoch=run.epoch, spill_bytes=0
        )
        self._tables = ActiveTables(self._lifecycle, self._watermarks, nothing, Lanes(self._run))
        self._beside = BesideStream(self._maintenance, table_by_table=True, run_alone=_run_now)
        self._periodic = PeriodicWork(self._lifecycle, self._tables, self._beside.poll)
        self._schemas = SliceSchemas(
            self._lifecycle, self._source, self._consumer, self._tables, self._slice_store, self._maintenance.locks
        )
        follow, locks = self._schemas.follow, self._maintenance.locks
        self._applier = SliceApplier(
            self._lifecycle, self._source, self._consumer, self._tables, follow, locks, self._failed
        )
        self._rejoining = Rejoining(self._began, self._watermarks.values())
        self._rejoining.passed(start)
        self._slice_store.load(
            watermark.position.offset for watermark in self._watermarks.values() if start < watermark.position.offset
        )
        self._schemas.finish()
        self._late.begin(self._slice_store)

    def _reached(self, goal: Offset | None) -> bool:
        """Whether `goal` is durable, no failed table is to be tried again or a late one to join, and no operator asks for anything.

        Raises:
            Rejoin: As `ActiveTables.let_failing_go`.
        """
        is_open = self._tables.retry_at < math.inf or self._run.requested.is_set() or self._late.are_reading
        if goal is None or self._current < goal or is_open:
            return False
        self._tables.let_failing_go()
        return True

    def _plan(self, goal: Offset | None) -> LogSlice | None:
        """The next slice; it crosses neither a table's position nor the goal."""
        fence = self._slice_store.next_end(self._current)
        if fence is None and goal is not None and self._current < goal:
            fence = goal
        return self._source.plan(self._current, self._size.limit_bytes, fence)

    def _take(self, piece: LogSlice) -> bool:
        """Apply one slice and save its end. Returns whether the target had work with it: changes, or a table that failed."""
        rows, failures = 0, self._failures
        if piece.partitions:
            positions = {*self._doubtful, *(watermark.position.offset for watermark in self._watermarks.values())}
            self._slice_store.plan(piece.end, self._current, self._run.saved_offset, positions)
            failpoint("engine.slice.planned")
            self._interval.waiting()
            began = time.monotonic()
            tally = self._applier.apply(piece, self._current)
            failpoint("engine.slice.applied")
            rows = tally.rows
            if rows:  # changes of tables that are not selected are no reason to gather
                self._interval.applied(rows)
            self._size.learn(piece.estimated_bytes, time.monotonic() - began, tally.rows, tally.nbytes)
        self._current = piece.end
        self._rejoining.passed(piece.end)
        if not self._tables.holds_offset:
            self._run.save_offset(piece.end, piece.last_sequence)
            if self._run.committed_offset is not None:
                self._source.committed(self._run.committed_offset)
        return rows > 0 or self._failures > failures

    def _failed(self, table: TableId, error: Exception, end: Offset) -> None:
        """The table's position is unchanged, or `end` when the answer to its commit was lost."""
        self._failures += 1
        self._doubtful |= {self._watermarks[table].position.offset, end}
        self._tables.failed(table, error)

    def _rest(self, seconds: float) -> None:
        if seconds > 0:
            self._run.stop.wait(seconds)

    def _run_periodic_work(self) -> None:
        self._periodic.run()
        wanted = time.monotonic() >= self._tables.rejoin_at or self._run.requested.is_set()
        if (wanted or self._late.may_join) and self._rejoining.is_due:
            self._late.join()
            raise Rejoin


def _run_now(work: Callable[[], None], is_urgent: bool) -> bool:  # noqa: ARG001 - called between slices: nothing is under way
    work()
    return True
