"""One attempt's streaming: a reader thread fills the queue; this thread batches and applies until the attempt ends.

While one batch is applied the next one is read; two batches are never applied at once, so that each table's
commits are in order.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from replicator_runtime.engine.apply import rejoining
from replicator_runtime.engine.apply.active_tables import ActiveTables
from replicator_runtime.engine.apply.lane_drains import LaneDrains
from replicator_runtime.engine.apply.operation_filter import keep_operations
from replicator_runtime.engine.apply.periodic_work import PeriodicWork
from replicator_runtime.engine.apply.rejoining import Rejoining
from replicator_runtime.engine.batching.batch_interval import BatchInterval
from replicator_runtime.engine.batching.batching import Batcher
from replicator_runtime.engine.batching.event_queue import EventQueue
from replicator_runtime.engine.batching.sequencer import CommitMark, Item, SequencingEmitter
from replicator_runtime.engine.lifecycle.log_release import isolates
from replicator_runtime.engine.maintenance.beside_stream import BesideStream
from replicator_runtime.engine.preparation.discovery import expects_new_tables, unknown_tables
from replicator_runtime.engine.preparation.new_names import postponement_ends
from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_runtime.engine.stream.databases import DATABASES, Databases
from replicator_runtime.engine.stream.in_flight import InFlight
from replicator_runtime.engine.stream.schema_changes import SchemaChanges
from replicator_runtime.engine.stream.table_renames import TableRenames
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import ChangeBatch, DDLOperation, ReaderClosed
from replicator_sdk.errors import ReplicatorError, RowsRewrittenError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.timeline import waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.apply.applier import Applier
    from replicator_runtime.engine.lanes.lanes import Lanes
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.maintenance.maintenance import Maintenance
    from replicator_runtime.engine.snapshot.snapshots import Snapshots
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventReader, Offset, Position, TableId, TableSchema

_TICK = 0.2
_NEW_SECONDS = 2.0
"""Changes that are no older at the source are read as they come."""
_IDLE_SECONDS = 15.0  # of silence: the reader is at the end of the log, also where it emits no offset there


class Stream:
    """Streaming from the saved offset on. Used by the engine's main thread; the reader has a thread of its own.

    Args:
        lifecycle: Of all tables.
        applier: Applies.
        schemas: The schemas at the saved offset, of the tables that take changes.
        watermarks: From where on each of them takes changes.
        lanes: Of those that are paused.
        snapshots: The copies that run meanwhile; None for a source without snapshots.
        maintenance: The run's.
        began: When the attempt began, on this process's clock.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        applier: Applier,
        schemas: Mapping[TableId, TableSchema],
        watermarks: dict[TableId, TableWatermark],
        lanes: Lanes,
        snapshots: Snapshots | None,
        maintenance: Maintenance,
        began: float,
    ) -> None:
        self._lifecycle = lifecycle
        self._run = run = lifecycle.run
        self._maintenance = maintenance
        self._began = began
        self._applier = applier
        self._watermarks = watermarks
        self._lanes = lanes
        self._snapshots = snapshots
        self._limits = run.limits
        self._interval = BatchInterval(self._limits.max_interval_seconds)
        self._queue: EventQueue[Item] = EventQueue(self._limits.queue_bytes)
        self.emitter = SequencingEmitter(self._queue, schemas)
        self._waiting_since = 0.0
        self._looked_at = time.monotonic()
        self._joined_at = time.monotonic()
        self._heard_at = time.monotonic()
        self._waiting_to_join = False
        self._new_tables = False
        self._present: Offset | None = None
        self._has_goal = False
        self._watches = expects_new_tables(lifecycle)

    def start(self, offset: Offset, sequence_number: int) -> None:
        """Reading begins after `offset`; called once, before `run`, when the reader has said where."""
        self.emitter.start(offset, sequence_number)
        run = self._run
        self._rejoining = Rejoining(self._began, self._watermarks.values())
        self._batcher = Batcher(
            (offset, sequence_number),
            self._watermarks,
            generation=run.generation,
            epoch=run.epoch,
            spill_bytes=self._limits.spill_bytes,
            recount=self._count_again,
        )
        self._tables = ActiveTables(self._lifecycle, self._watermarks, self._batcher, self._lanes)
        self._in_flight = InFlight(run, self._applier, self._tables)
        self._drains = LaneDrains(self._lifecycle, self._tables, self._maintenance.locks, self._in_flight.finish_batch)
        self._beside = BesideStream(
            self._maintenance, table_by_table=self._applier.is_table_by_table, run_alone=self._in_flight.run_alone
        )
        self._periodic = PeriodicWork(self._lifecycle, self._tables, self._beside.poll)
        before = self._in_flight.apply_before
        self._schema_changes = SchemaChanges(self._lifecycle, self._applier, self._tables, before)
        over = self._schema_changes.pass_over
        self._renames = TableRenames(self._lifecycle, self._applier, self._tables, before, over)
        self._databases = Databases(self._lifecycle, self._applier, self._tables)

    def _count_again(self, table: TableId, position: Position, counts: Mapping[str, int]) -> None:
        """Count changes that the target has since before a kill."""
        record = self._lifecycle.records.get(table)
        self._run.totals.add(table, "" if record is None else record.copy_id, position, counts)

    def run(self, reader: EventReader, goal: Offset | None, present: Offset) -> None:
        """Stream until the run is to stop or `goal` is durable; everything read by then is applied and saved.

        Args:
            reader: Created with this stream's `emitter`, and initialised.
            goal: The offset to stop at; None to go on for ever.
            present: Where the source's log ended when the attempt began: until reading is there the lag is not known.

        Raises:
            Rejoin: When tables are to join.
            Exception: What reader or target failed with.
        """
        self._present, self._has_goal = present, goal is not None
        self._drains.start()
        thread = threading.Thread(target=self._read, args=(reader,), name="reader", daemon=True)
        thread.start()
        try:
            while not self._run.stop.is_set() and not self._reached(goal):
                self._step()
            self._run.progress.set_phase("stopping")
            self._in_flight.flush()
        except Rejoin:
            self._tables.doubt(self._in_flight.unsettled_tables)
            copied = {} if self._snapshots is None else self._snapshots.copied_watermarks()
            self._lifecycle.settled_watermarks = copied | self._tables.settled
            raise
        finally:
            self._queue.close()
            reader.close()
            thread.join(30)
            self._beside.close()
            self._drains.close()
            self._in_flight.close()
            self._batcher.close()

    def _read(self, reader: EventReader) -> None:
        try:
            reader.run()
            self._queue.fail(ReaderClosed())
        except BaseException as error:  # noqa: BLE001 - handed to the apply thread, which decides
            self._queue.fail(error)

    def _step(self) -> None:
        try:
            is_busy = self._in_flight.is_applying or not self._batcher.empty
            with waiting("batch.wait" if self._in_flight.is_applying else "changes.wait"):
                item = self._queue.get(_TICK / 4 if is_busy else _TICK)
        except ReplicatorError as error:
            self._stop_its_table(error)
            raise
        if item is not None:
            self._heard_at = time.monotonic()
            self._run.progress.heard()
            self._take(item)
        self._in_flight.poll()
        if self._due():
            self._interval.applied(self._batcher.rows)
            self._run.metrics.took("wait", time.monotonic() - self._waiting_since)
            self._in_flight.begin_batch()
        self._join_snapshots()
        self._run_periodic_work()

    def _stop_its_table(self, error: ReplicatorError) -> None:
        """Copy the table that the reader failed for again, or stop it and continue with the others.

        Raises:
            Rejoin: When the error names a table, and leads to either.
            ReplicatorError: `error`, when it concerns more than that table, or no other one works.
        """
        records = [r for r in self._lifecycle.records.values() if r.table not in self._lifecycle.stopped and r.schemas]
        read_to = self._batcher.offset
        # The reader knows a table by the name that it had where the reader is.
        here = [r for r in records if str(r.schema_at(read_to).table) == error.table]
        for record in here or [r for r in records if str(r.table) == error.table]:
            isolate = isolates(self._run.config, record, read_to)
            if isinstance(error, SnapshotNeededError) or verdict(error, isolate=isolate) is Verdict.TABLE:
                self._in_flight.flush()
                self._tables.failed(record.table, self._judged(record, error), read_to=read_to)
                raise Rejoin

    def _judged(self, record: TableRecord, error: ReplicatorError) -> ReplicatorError:
        """The error that the table fails with: another one where the pipeline has a policy for rewritten rows.

        Raises:
            Rejoin: When an operator is asked first.
        """
        if isinstance(error, RowsRewrittenError):
            try:
                self._schema_changes.hold_rewritten(record)
            except SchemaDriftError as refused:
                return refused
        return error

    def _take(self, item: Item) -> None:
        if isinstance(item, ChangeBatch):
            kept = self._without_blacklisted(item)
            self._renames.end()
            if kept is not None:
                self._batcher.add(kept)
        elif isinstance(item, CommitMark):
            waiting = not self._batcher.empty
            self._renames.end()
            self._schema_changes.commit(item)
            self._batcher.commit(item)
            self._run.expects_more = item.commits.more
            if not waiting and not self._batcher.empty:
                self._waiting_since = time.monotonic()
                self._interval.waiting()
        elif item.operation is DDLOperation.RENAME_TABLE:
            self._renames.take(item)
        elif item.operation in DATABASES:
            self._renames.end()
            self._databases.take(item)
        else:
            self._renames.end()
            self._schema_changes.apply(item)

    def _without_blacklisted(self, batch: ChangeBatch) -> ChangeBatch | None:
        selected = self._run.pipeline.selection.matches(batch.table)
        if selected is None or not selected.dml_blacklist:
            return batch
        return keep_operations(batch, {int(op) for op in selected.dml_blacklist})

    def _due(self) -> bool:
        if self._batcher.empty:
            return False
        limits, batcher = self._limits, self._batcher
        if batcher.rows >= limits.max_rows or batcher.nbytes >= limits.max_bytes:
            return True
        waited = time.monotonic() - self._waiting_since
        if self._in_flight.is_applying:
            return False
        return waited >= self._interval.seconds(batcher.rows, is_current=self._is_current())

    def _is_current(self) -> bool:
        """Whether all that the source has was read, and it is new there: no backlog is read, whose batches would become small."""
        if self._has_goal or self._present is not None or self._run.expects_more or self._queue.nbytes:
            return False
        age = self._run.progress.age(self._batcher.newest_timestamp)
        return age is not None and age < _NEW_SECONDS

    def _reached(self, goal: Offset | None) -> bool:
        """Whether everything up to `goal` is durable and nothing waits to join.

        Raises:
            Rejoin: As `ActiveTables.let_failing_go`.
        """
        if goal is None or self._run.expects_more or self._expects_tables() or self._batcher.offset < goal:
            return False
        self._in_flight.flush()
        self._tables.let_failing_go()
        return not self._expects_tables()

    def _expects_tables(self) -> bool:
        """Whether some table will join, or is to be tried again, or an operator asks for something."""
        snapshotting = self._snapshots is not None and (self._snapshots.running or self._snapshots.waiting)
        waiting = (
            self._waiting_to_join
            or self._drains.running
            or bool(self._lifecycle.postponed)
            or self._run.requested.is_set()
        )
        return snapshotting or waiting or self._tables.retry_at < math.inf

    def _join_snapshots(self) -> None:
        """Let tables whose snapshot is done, or whose lane is drained, join, by reading again from the offset held for them."""
        if self._snapshots is None:
            return
        self._waiting_to_join |= self._drains.poll()
        self._waiting_to_join |= self._snapshots.poll()
        due = not self._snapshots.running or time.monotonic() - self._joined_at > rejoining.JOIN_SECONDS
        if self._waiting_to_join and due:
            self._rejoin()

    def _run_periodic_work(self) -> None:
        now = time.monotonic()
        self._report_lag()
        self._in_flight.save_when_idle()
        self._periodic.run(self._in_flight.waiting_tables)
        self._rejoining.passed(self._batcher.offset)
        if now - self._heard_at > _IDLE_SECONDS:
            self._rejoining.at_the_end()
        if now >= self._tables.rejoin_at or self._run.requested.is_set():
            self._rejoin()
        if self._watches and now - self._looked_at > self._run.config.new_tables_interval_seconds:
            self._looked_at = now
            self._new_tables = bool(unknown_tables(self._lifecycle))
        if self._lifecycle.postponed and postponement_ends(self._lifecycle, self._batcher.offset):
            self._new_tables = True
        if self._new_tables:
            self._rejoin()

    def _report_lag(self) -> None:
        """Report how far the stream is; that nothing waits says so only of what was read."""
        in_flight = self._in_flight
        if self._present is not None and not self._batcher.offset < self._present:
            self._present = None
        is_known, is_idle = self._present is None, self._batcher.empty and in_flight.is_settled
        waiting = in_flight.waiting_tables if is_known else None
        nbytes = self._queue.nbytes + self._batcher.nbytes
        newest = self._batcher.newest_timestamp
        self._run.progress.read(is_known and is_idle, in_flight.oldest_timestamp, waiting, nbytes, newest)

    def _rejoin(self) -> None:
        """Begin another attempt, unless reading the log again would keep the tables from advancing.

        Raises:
            Rejoin: So that it follows.
        """
        if self._rejoining.is_due:
            self._in_flight.flush()
            raise Rejoin
