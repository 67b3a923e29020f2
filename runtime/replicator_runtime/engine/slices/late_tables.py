"""Reads tables by themselves that are before the saved offset: they were paused or failed for long, and the log kept their changes.

Such a table has a slice of its own between those of the others, from its own position up to the saved offset. Once it is exactly
there it takes changes with the others, from the next attempt on. The saved offset never waits for it.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.apply.active_tables import ActiveTables
from replicator_runtime.engine.batching.batching import Batcher
from replicator_runtime.engine.lanes.lanes import Lanes
from replicator_runtime.engine.run_state.error_policy import error_of_table
from replicator_runtime.engine.slices.slice_applier import SliceApplier
from replicator_runtime.engine.slices.slice_schemas import SliceSchemas
from replicator_runtime.engine.slices.slice_size import SliceSize
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import Position
from replicator_sdk.errors import (
    BugError,
    FencedError,
    HistoryLostError,
    ReplicatorError,
    SnapshotNeededError,
    TableHistoryLostError,
)
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.maintenance.table_locks import TableLocks
    from replicator_runtime.engine.slices.slice_store import SliceStore
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import DistributedLog, LogSlice, Offset, RangeConsumer, TableId

register("engine.late_table.applied", "engine.late_table.reached", "engine.late_table.joined")
log = structlog.get_logger()
_LOOK_SECONDS = 30.0
_ALL_BYTES = 1 << 62


class LateTables:
    """Those of one attempt. Used by the engine's main thread, between two slices.

    Args:
        lifecycle: Of all tables.
        source: Initialised.
        consumer: Started.
        positions: The tables, and how far each is: it has every change up to there. Those that are to be resumed are read.
        locks: Held while the target applies.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        source: DistributedLog,
        consumer: RangeConsumer,
        positions: Mapping[TableId, Position],
        locks: TableLocks,
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._source = source
        self._consumer = consumer
        self._locks = locks
        tables = {
            table: _OneTable(lifecycle, lifecycle.records[table], position) for table, position in positions.items()
        }
        self._waiting = {t: one for t, one in tables.items() if not one.is_read}
        self._reading = {t: one for t, one in tables.items() if one.is_read}
        self._interval = consumer.slice_interval
        self._looked_at = -math.inf
        self._report()

    def begin(self, slice_store: SliceStore) -> None:
        """Called once, first.

        Args:
            slice_store: Keeps changes of schemas that were announced; loaded, and those of the other tables are applied.

        Raises:
            Exception: A failure that concerns more than one table.
        """
        for one in self._reading.values():
            one.prepare(self._source, self._consumer, slice_store, self._locks)
        self._look()

    @property
    def are_reading(self) -> bool:
        """Whether any is to be read on, or to join."""
        return bool(self._reading)

    @property
    def may_join(self) -> bool:
        """Whether any is exactly at the saved offset."""
        return any(self._is_there(one) for one in self._reading.values())

    def step(self) -> bool:
        """Apply the next slice of each, where there is one and it may begin; returns whether there was any.

        Raises:
            Exception: A failure that concerns more than one table.
        """
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._look()
        applied = 0
        for one in list(self._reading.values()):
            if one.next_at <= time.monotonic() and not self._run.stop.is_set():
                applied += self._advance(one)
        return applied > 0

    def keep(self) -> None:
        """Have those that are read begin where they are, should they be read no more for a while; durable when this returns.

        Else the log would be asked for what they have already, which it may not have any more, and read it again where most of it is of
        other tables.
        """
        moved = [one.record for one in self._reading.values() if one.keep()]
        if moved:
            self._lifecycle.save()

    def join(self) -> None:
        """Let those that are exactly at the saved offset take changes from the next attempt on; durable when this returns.

        Called right before this attempt ends: a slice of the others would pass them.
        """
        for one in [one for one in self._reading.values() if self._is_there(one)]:
            failpoint("engine.late_table.reached")
            self._lifecycle.end_lane(one.record)
            failpoint("engine.late_table.joined")
            log.info("table.resumed", table=str(one.record.table))

    def _report(self) -> None:
        """Say which changes the log has to keep for them."""
        tables = [*self._waiting.items(), *self._reading.items()]
        self._run.late_offsets = {table: one.position.offset for table, one in tables}

    def _is_there(self, one: _OneTable) -> bool:
        return one.position.offset == self._run.saved_offset

    def _advance(self, one: _OneTable) -> bool:
        began = time.monotonic()
        try:
            piece = self._plan(one, one.size.limit_bytes)
            if piece is None:
                return False
            one.apply(piece)
        except (FencedError, BugError):
            raise
        except Exception as error:  # noqa: BLE001 - the policy decides, for this table
            one.failed(error)
        finally:
            one.next_at = began + self._interval
        if not one.is_read:
            del self._reading[one.record.table]
        self._report()
        return True

    def _plan(self, one: _OneTable, limit_bytes: int) -> LogSlice | None:
        saved = self._run.saved_offset
        assert saved is not None
        return self._source.plan_table(one.record.table, one.position.offset, limit_bytes, saved)

    def _look(self) -> None:
        """See what waits in the log for each, and that it is still there."""
        self._looked_at = time.monotonic()
        self.keep()
        for table, one in [*self._waiting.items(), *self._reading.items()]:
            try:
                piece = self._plan(one, _ALL_BYTES)
            except (HistoryLostError, TableHistoryLostError) as error:
                one.failed(error)
                self._waiting.pop(table, None)
                self._reading.pop(table, None)
                continue
            except ReplicatorError as error:  # those that are resumed meet it when they are read
                log.warning("table.log_not_seen", table=str(table), code=error.code, error=error.message)
                continue
            parts = piece.partitions if piece is not None else ()
            rows, nbytes = sum(max(0, p.estimated_rows) for p in parts), sum(max(0, p.estimated_bytes) for p in parts)
            pause = one.record.pause
            since = pause.since if pause is not None and rows else None
            self._run.progress.set_lane(table, rows, nbytes, since, in_log=True)
        self._report()


class _OneTable:
    """One of them.

    Args:
        lifecycle: Of all tables.
        record: The table.
        position: Every change up to it is in the table.

    Attributes:
        record: The table.
        size: How much of the log its next slice may have.
        next_at: When that may begin, on this process's clock.
    """

    def __init__(self, lifecycle: TableLifecycle, record: TableRecord, position: Position) -> None:
        run = lifecycle.run
        self._lifecycle = lifecycle
        self.record = record
        self._position = position
        assert record.pause is not None
        self._marks = {record.table: TableWatermark(position)} if record.pause.resuming else {}
        nothing = Batcher((position.offset, 0), self._marks, generation=run.generation, epoch=run.epoch, spill_bytes=0)
        self._tables = _OneActive(lifecycle, self._marks, nothing, Lanes(run))
        self._applier: SliceApplier
        self.size = SliceSize(run.limits)
        self.next_at = -math.inf

    @property
    def is_read(self) -> bool:
        """Whether it takes its changes now."""
        return bool(self._marks)

    @property
    def position(self) -> Position:
        """How far it is."""
        return self._marks[self.record.table].position if self._marks else self._position

    def prepare(
        self, source: DistributedLog, consumer: RangeConsumer, slice_store: SliceStore, locks: TableLocks
    ) -> None:
        """Called once before `apply`; a change of its schema that was announced and not applied is applied."""
        lifecycle, tables = self._lifecycle, self._tables
        schemas = SliceSchemas(lifecycle, source, consumer, tables, slice_store, locks)
        self._applier = SliceApplier(
            lifecycle,
            source,
            consumer,
            tables,
            schemas.follow,
            locks,
            lambda t, error, _: tables.failed(t, error),
            alone=True,
        )
        schemas.finish()

    def apply(self, piece: LogSlice) -> None:
        """Have the target apply one slice; the table is at its end then, also where nothing in it is of the table."""
        began = time.monotonic()
        tally = self._applier.apply(piece, self.position.offset)
        if self._marks:
            self._marks[self.record.table].position = Position(piece.end)
            failpoint("engine.late_table.applied")
            self.size.learn(piece.estimated_bytes, time.monotonic() - began, tally.rows, tally.nbytes)

    def keep(self) -> bool:
        """Let it begin where it is when it is read again; returns whether that is new. The caller saves."""
        pause = self.record.pause
        if not self._marks or pause is None or pause.base is None or not pause.base < self.position:
            return False
        pause.base = self.position
        return True

    def failed(self, error: Exception) -> None:
        """As `ActiveTables.failed`."""
        self.keep()
        self._tables.failed(self.record.table, error)


class _OneActive(ActiveTables):
    """One late table. When it fails it holds no offset, as before: what it lacks stays in the log."""

    def failed(self, table: TableId, error: Exception, *, read_to: Offset | None = None) -> None:
        """It stops alone: for a while, until the next start, or for good, where the log has not all of its changes any more.

        Raises:
            Exception: `error`, when it concerns more than the table.
        """
        record = self._lifecycle.records[table]
        error = error_of_table(error, table, "")
        if isinstance(error, HistoryLostError):
            error = TableHistoryLostError(
                error.message, code=error.code, hint=error.hint, table=str(table), position=error.position
            )
        if record.fails_in_lane and not isinstance(error, TableHistoryLostError | SnapshotNeededError):
            self._lifecycle.fail_lane(record, error)
            self._stop_taking(table)
        else:
            super().failed(table, error, read_to=read_to)
