"""One stretch of streaming: a reader thread fills the queue, this thread gathers and applies until something ends it.

While one batch is being applied the next is read and gathered; two batches never apply at once, so that each table's
commits come in order.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from replicator_runtime.engine.blacklist import keep_operations
from replicator_runtime.engine.discovery import may_join, unknown_tables
from replicator_runtime.engine.error_policy import Verdict, verdict
from replicator_runtime.engine.event_queue import EventQueue
from replicator_runtime.engine.flights import Flights
from replicator_runtime.engine.gather import Gathering, TableFloor
from replicator_runtime.engine.rejoining import Rejoining
from replicator_runtime.engine.schema_changes import SchemaChanges
from replicator_runtime.engine.sequencer import CommitMark, Item, SequencingEmitter
from replicator_runtime.engine.taking_tables import Rejoin, TakingTables
from replicator_sdk import ChangeBatch, ReaderClosed
from replicator_sdk.errors import ReplicatorError, SnapshotNeededError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.apply import Applier
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.snapshots import Snapshots
    from replicator_sdk import EventReader, Offset, TableId, TableSchema

_TICK = 0.2
_REJOIN_SECONDS = 60.0
_IDLE_SECONDS = 15.0  # of silence: the reader is at the end of the log, also where it emits no offset there


class Stream:
    """Streaming from the saved offset on. Used by the engine's main thread; the reader has a thread of its own."""

    def __init__(
        self,
        run: Run,
        applier: Applier,
        schemas: Mapping[TableId, TableSchema],
        floors: dict[TableId, TableFloor],
        snapshots: Snapshots | None,
    ) -> None:
        self._run = run
        self._applier = applier
        self._floors = floors
        self._snapshots = snapshots
        self._queue: EventQueue[Item] = EventQueue(run.limits.queue_bytes)
        self.emitter = SequencingEmitter(self._queue, schemas)
        self._gathered_since = 0.0
        self._looked_at = time.monotonic()
        self._joined_at = time.monotonic()
        self._heard_at = time.monotonic()
        self._waiting_to_join = False
        self._new_tables = False
        self._watches = may_join(run)

    def start(self, offset: Offset, sequence_number: int) -> None:
        """Reading begins after `offset`; called once, before `run`, when the reader has said where."""
        self.emitter.start(offset, sequence_number)
        run = self._run
        self._rejoining = Rejoining(run.attempt_began, self._floors.values())
        self._gathering = Gathering(
            (offset, sequence_number),
            self._floors,
            generation=run.generation,
            epoch=run.epoch,
            spill_bytes=run.limits.spill_bytes,
        )
        self._tables = TakingTables(run, self._floors, self._gathering)
        self._flights = Flights(run, self._applier, self._tables)
        self._schema_changes = SchemaChanges(run, self._applier, self._tables, self._flights)

    def run(self, reader: EventReader, goal: Offset | None) -> None:
        """Stream until the run is to stop or `goal` is durable; everything gathered by then is applied and saved.

        Args:
            reader: Made with this stream's `emitter` and initialised.
            goal: The offset to stop at; None to go on for ever.

        Raises:
            Rejoin: When tables are to join.
            Exception: What reader or target failed with.
        """
        thread = threading.Thread(target=self._read, args=(reader,), name="reader", daemon=True)
        thread.start()
        try:
            while not self._run.stop.is_set() and not self._reached(goal):
                self._step()
            self._run.progress.set_phase("stopping")
            self._flights.flush()
        except Rejoin:
            self._tables.doubt(self._flights.unsettled_tables)
            self._run.settled_floors = self._tables.settled
            raise
        finally:
            self._queue.close()
            reader.close()
            thread.join(30)
            self._flights.close()
            self._gathering.close()

    def _read(self, reader: EventReader) -> None:
        try:
            reader.run()
            self._queue.fail(ReaderClosed())
        except BaseException as error:  # noqa: BLE001 - handed to the apply thread, which decides
            self._queue.fail(error)

    def _step(self) -> None:
        try:
            item = self._queue.get(_TICK / 4 if self._flights.is_flying else _TICK)
        except ReplicatorError as error:
            self._stop_its_table(error)
            raise
        if item is not None:
            self._heard_at = time.monotonic()
            self._take(item)
        self._flights.look()
        if self._due():
            self._flights.take_off()
        self._join_snapshots()
        self._housekeep()

    def _stop_its_table(self, error: ReplicatorError) -> None:
        """Let the table that the reader failed for be copied again, or stop it and read on for the others.

        Raises:
            Rejoin: When the error names a table, and leads to either.
            ReplicatorError: `error`, when it concerns more than that table, or no other one works.
        """
        isolate = self._run.config.on_table_error == "isolate"
        if not isinstance(error, SnapshotNeededError) and verdict(error, isolate=isolate) is not Verdict.TABLE:
            return
        for record in self._run.book.records.values():
            if str(record.table) == error.table and record.table not in self._run.failing:
                self._flights.flush()
                self._tables.failed(record.table, error)
                raise Rejoin

    def _take(self, item: Item) -> None:
        if isinstance(item, ChangeBatch):
            kept = self._without_blacklisted(item)
            if kept is not None:
                self._gathering.add(kept)
        elif isinstance(item, CommitMark):
            waiting = not self._gathering.empty
            self._schema_changes.commit(item)
            self._gathering.commit(item)
            if not waiting and not self._gathering.empty:
                self._gathered_since = time.monotonic()
        else:
            self._schema_changes.apply(item)

    def _without_blacklisted(self, batch: ChangeBatch) -> ChangeBatch | None:
        selected = self._run.pipeline.selection.matches(batch.table)
        if selected is None or not selected.dml_blacklist:
            return batch
        return keep_operations(batch, {int(op) for op in selected.dml_blacklist})

    def _due(self) -> bool:
        if self._gathering.empty:
            return False
        limits, gathering = self._run.limits, self._gathering
        if gathering.rows >= limits.max_rows or gathering.nbytes >= limits.max_bytes:
            return True
        waited = time.monotonic() - self._gathered_since
        return not self._flights.is_flying and waited >= limits.max_interval_seconds

    def _reached(self, goal: Offset | None) -> bool:
        """Whether everything up to `goal` is durable and nothing waits to join."""
        if goal is None or self._expects_tables() or self._gathering.offset < goal:
            return False
        self._flights.flush()
        return not self._expects_tables()

    def _expects_tables(self) -> bool:
        """Whether some table will join, or come back after a failure."""
        snapshotting = self._snapshots is not None and (self._snapshots.running or self._snapshots.waiting)
        return snapshotting or self._waiting_to_join or self._tables.retry_at < math.inf

    def _join_snapshots(self) -> None:
        """Let tables whose snapshot is done join, by reading again from the offset held for them."""
        if self._snapshots is None:
            return
        self._waiting_to_join |= self._snapshots.look()
        due = not self._snapshots.running or time.monotonic() - self._joined_at > _REJOIN_SECONDS
        if self._waiting_to_join and due:
            self._rejoin()

    def _housekeep(self) -> None:
        now = time.monotonic()
        is_idle = self._gathering.empty and self._flights.is_settled
        self._run.progress.read(is_idle, self._flights.oldest_timestamp)
        self._flights.save_when_idle()
        self._run.positions.save_when_due()
        self._flights.maintain()
        self._rejoining.passed(self._gathering.offset)
        if now - self._heard_at > _IDLE_SECONDS:
            self._rejoining.at_the_end()
        if now >= self._tables.retry_at:
            self._rejoin()
        if self._watches and now - self._looked_at > self._run.config.new_tables_interval_seconds:
            self._looked_at = now
            self._new_tables = bool(unknown_tables(self._run))
        if self._new_tables:
            self._rejoin()

    def _rejoin(self) -> None:
        """Begin another attempt, unless reading the log again would keep the tables from going forward.

        Raises:
            Rejoin: So that it follows.
        """
        copying = self._snapshots is not None and self._snapshots.would_start_over
        if self._rejoining.is_due and not copying:
            self._flights.flush()
            raise Rejoin
