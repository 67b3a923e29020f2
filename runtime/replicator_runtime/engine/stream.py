"""One stretch of streaming: a reader thread fills the queue, this thread gathers and applies until something ends it.

While one batch is being applied the next is read and gathered; two batches never apply at once, so that each table's
commits come in order.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.discovery import has_patterns, mark_failing, unknown_tables
from replicator_runtime.engine.error_policy import Verdict, verdict
from replicator_runtime.engine.event_queue import EventQueue
from replicator_runtime.engine.gather import Gathering, TableFloor
from replicator_runtime.engine.progress import TableState
from replicator_runtime.engine.sequencer import CommitMark, Item, SequencingEmitter
from replicator_sdk import ChangeBatch, DDLEvent, DDLOperation, Position, ReaderClosed
from replicator_sdk.errors import SchemaDriftError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from replicator_runtime.engine.apply import Applier
    from replicator_runtime.engine.gather import Gathered
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.snapshots import Snapshots
    from replicator_runtime.engine.tables import TableRecord
    from replicator_sdk import EventReader, Offset, TableId, TableSchema

register("engine.batch.gathered", "engine.batch.applied", "engine.ddl.before_apply", "engine.ddl.after_apply")
log = structlog.get_logger()

_TICK = 0.2
_IDLE_SAVE_SECONDS = 10.0
_REJOIN_SECONDS = 60.0


class Rejoin(Exception):  # noqa: N818 - a signal, not an error
    """Tables are to join or come back: read again from the saved offset, which was held for them."""


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
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._flight: Future[dict[TableId, Exception]] | None = None
        self._flown: list[Gathered] = []
        self._flown_oldest = -1
        self._gathered_since = 0.0
        self._saved_at = time.monotonic()
        self._maintained_at = time.monotonic()
        self._looked_at = time.monotonic()
        self._joined_at = time.monotonic()
        self._waiting_to_join = False
        self._retry_at = math.inf
        self._watches = run.config.new_tables == "include" and has_patterns(run.config)

    def start(self, offset: Offset, sequence_number: int) -> None:
        """Reading begins after `offset`; called once, before `run`, when the reader has said where."""
        self.emitter.start(offset, sequence_number)
        self._flown_to = (offset, sequence_number)
        self._gathering = Gathering(
            self._flown_to,
            self._floors,
            generation=self._run.generation,
            epoch=self._run.epoch,
            spill_bytes=self._run.limits.spill_bytes,
        )

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
            self._flush(wait=True)
            self._save()
        finally:
            self._queue.close()
            reader.close()
            thread.join(30)
            self._flusher.shutdown(wait=True)
            self._finish_quietly()
            self._gathering.close()

    def _read(self, reader: EventReader) -> None:
        try:
            reader.run()
            self._queue.fail(ReaderClosed())
        except BaseException as error:  # noqa: BLE001 - handed to the apply thread, which decides
            self._queue.fail(error)

    def _step(self) -> None:
        item = self._queue.get(_TICK if self._flight is None else _TICK / 4)
        if item is not None:
            self._take(item)
        self._settle()
        if self._due():
            self._flush(wait=False)
        self._join_snapshots()
        self._housekeep()

    def _take(self, item: Item) -> None:
        if isinstance(item, ChangeBatch):
            kept = self._without_blacklisted(item)
            if kept is not None:
                self._gathering.add(kept)
        elif isinstance(item, CommitMark):
            waiting = not self._gathering.empty
            self._gathering.commit(item)
            if not waiting and not self._gathering.empty:
                self._gathered_since = time.monotonic()
        else:
            self._apply_ddl(item)

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
        return self._flight is None and time.monotonic() - self._gathered_since >= limits.max_interval_seconds

    def _flush(self, *, wait: bool) -> None:
        """Begin applying everything gathered; the batch before it ends first."""
        self._land()
        self._flown_oldest = self._gathering.oldest_timestamp
        gathered = self._gathering.take()
        here = (self._gathering.offset, self._gathering.sequence_number)
        if gathered:
            failpoint("engine.batch.gathered")
            self._flown, self._flown_to = gathered, here
            self._flight = self._flusher.submit(self._applier.apply, gathered, here[0])
        else:
            self._flown_to = here
        if wait:
            self._land()

    def _settle(self) -> None:
        if self._flight is not None and self._flight.done():
            self._land()

    def _land(self) -> None:
        """Wait for the batch that is being applied; keep what it did."""
        if self._flight is None:
            return
        flight, flown, self._flight, self._flown = self._flight, self._flown, None, []
        try:
            failures = flight.result()
        finally:
            for item in flown:
                item.close()
        failpoint("engine.batch.applied")
        for item in flown:
            if item.changes.table not in failures:
                self._applied(item)
        for table, error in failures.items():
            self._failed(table, error)
        self._save()

    def _applied(self, item: Gathered) -> None:
        table, tally, metrics = item.changes.table, item.tally, self._run.metrics
        if table in self._floors:
            self._floors[table].position = item.changes.identity.position
        for name, count in (("insert", tally.inserts), ("update", tally.updates), ("delete", tally.deletes)):
            metrics.count(f"dml.{name}", count, table=table)
        self._run.progress.applied(table, tally.rows, tally.source_timestamp)
        self._run.table_patience.succeeded(table)

    def _failed(self, table: TableId, error: Exception) -> None:
        """One table failed: it stands still alone, for a while or until the next start, or all is replayed."""
        if isinstance(error, SnapshotNeededError):
            log.warning("table.copied_anew", table=str(table), code=error.code, error=str(error))
            self._copy_anew(self._run.book.records[table])
            raise Rejoin
        isolate = self._run.config.on_table_error == "isolate" and len(self._floors) > 1
        decided = verdict(error, isolate=isolate)
        delay = self._run.table_patience.next_delay(table) if isolate and decided is Verdict.RETRY else None
        if decided is not Verdict.TABLE and delay is None:
            raise error
        log.error("table.failing", table=str(table), code=getattr(error, "code", ""), error=str(error), retry=delay)
        self._floors.pop(table, None)
        self._gathering.drop(table)
        mark_failing(self._run, self._run.book.records[table], error)
        if delay is None:
            self._run.set_failing(table, error)
            self._run.book.save()
        else:
            self._retry_at = min(self._retry_at, time.monotonic() + delay)

    @property
    def _held(self) -> bool:
        """Whether some table stands behind, so that the saved offset must not move."""
        return any(record.table not in self._floors for record in self._run.book.records.values() if record.selected)

    def _save(self) -> None:
        """Save how far everything is durable, unless a table is held behind."""
        if self._held:
            return
        self._run.save_offset(*self._flown_to)
        self._saved_at = time.monotonic()

    def _apply_ddl(self, event: DDLEvent) -> None:
        """Apply what comes before the event in its table, then the event."""
        if event.operation is DDLOperation.RENAME_TABLE and event.prev_table is not None:
            self._leave(replace(event, table=event.prev_table))
            return
        floor = self._floors.get(event.table)
        position = Position(self._gathering.offset, event.ordinal + 1)
        created = event.operation is DDLOperation.CREATE_TABLE and event.table not in self._run.book.records
        new_table = created and self._run.pipeline.selection.matches(event.table) is not None
        if floor is None and not new_table:
            return
        self._apply_before(event)
        if floor is not None and position <= floor.position:
            return
        try:
            self._change_schema(replace(event, position=position))
        except Rejoin:
            raise
        except Exception as error:  # noqa: BLE001 - the policy decides
            self._failed(event.table, error)

    def _apply_before(self, event: DDLEvent) -> None:
        """Apply what comes before the event in its table; the batch in the air ends first."""
        self._land()
        before = self._gathering.cut(event)
        for table, error in self._applier.apply(before, self._gathering.offset).items():
            self._failed(table, error)
        for item in before:
            item.close()
            self._applied(item)

    def _leave(self, event: DDLEvent) -> None:
        """The table has another name now: what it was stays at the target; its new name joins like a new table.

        Moving the target's table along would break whoever reads it there, and a replay could not tell which name a
        change belongs to.
        """
        floor = self._floors.get(event.table)
        if floor is None or Position(self._gathering.offset, event.ordinal + 1) <= floor.position:
            return
        self._apply_before(event)
        log.warning("table.renamed", table=str(event.table), position=str(self._gathering.offset))
        self._forget(event.table)
        raise Rejoin

    def _forget(self, table: TableId) -> None:
        """The table is gone at the source: it is replicated no more, and its target stays as it is."""
        self._floors.pop(table, None)
        self._gathering.drop(table)
        self._run.book.records.pop(table, None)
        self._run.book.save()
        self._run.progress.forget_table(table)

    def _change_schema(self, event: DDLEvent) -> None:
        record = self._run.book.record(event.table)
        selected = self._run.pipeline.selection.matches(event.table)
        if selected is not None and event.operation in selected.ddl_blacklist:
            if event.operation is DDLOperation.ALTER_TABLE:
                raise SchemaDriftError(
                    "the table was altered at the source and ALTER_TABLE is on the ddlBlacklist",
                    code="RPL-6001",
                    hint="take ALTER_TABLE off the ddlBlacklist to let the change through, then start again",
                    table=str(event.table),
                    position=str(event.position),
                )
            if event.operation is DDLOperation.DROP_TABLE:
                self._forget(event.table)
                raise Rejoin
            return
        failpoint("engine.ddl.before_apply")
        self._applier.apply_ddl(event)
        failpoint("engine.ddl.after_apply")
        assert event.position is not None
        if event.operation is DDLOperation.DROP_TABLE:
            self._forget(event.table)  # a new table of that name joins like any other
            raise Rejoin
        if event.schema is not None:
            record.learn(event.position, event.schema)
        self._run.book.save()
        self._run.metrics.count("ddl", table=event.table)
        log.info("ddl.applied", table=str(event.table), operation=str(event.operation), position=str(event.position))
        if event.operation is DDLOperation.CREATE_TABLE and event.table not in self._floors:
            self._floors[event.table] = TableFloor(event.position)
            self._run.progress.set_table(event.table, TableState.REPLICATING)
        elif event.table in self._floors:
            self._floors[event.table].position = event.position
        if event.needs_snapshot:
            self._copy_anew(record)
            raise Rejoin

    def _copy_anew(self, record: TableRecord) -> None:
        """Forget the table's snapshot; it joins again once it is copied."""
        record.snapshot, record.state = None, TableState.PENDING
        self._run.book.save()
        self._floors.pop(record.table, None)
        self._gathering.drop(record.table)

    def _reached(self, goal: Offset | None) -> bool:
        """Whether everything up to `goal` is durable and nothing waits to join."""
        if goal is None or self._expects_tables() or self._gathering.offset < goal:
            return False
        self._flush(wait=True)
        return not self._expects_tables()

    def _expects_tables(self) -> bool:
        """Whether some table will join, or come back after a failure."""
        snapshotting = self._snapshots is not None and self._snapshots.running
        return snapshotting or self._waiting_to_join or self._retry_at < math.inf

    def _join_snapshots(self) -> None:
        """Let tables whose snapshot is done join, by reading again from the offset held for them."""
        if self._snapshots is None:
            return
        for record, error in self._snapshots.finished():
            if error is not None:
                isolate = self._run.config.on_table_error == "isolate"
                if verdict(error, isolate=isolate) is not Verdict.TABLE:
                    raise error
                self._run.set_failing(record.table, error)
                mark_failing(self._run, record, error)
                self._run.book.save()
            else:
                self._waiting_to_join = True
        due = not self._snapshots.running or time.monotonic() - self._joined_at > _REJOIN_SECONDS
        if self._waiting_to_join and due:
            self._flush(wait=True)
            raise Rejoin

    def _housekeep(self) -> None:
        now, gathering = time.monotonic(), self._gathering
        idle = gathering.empty and self._flight is None
        self._run.progress.read(idle, gathering.oldest_timestamp if self._flight is None else self._flown_oldest)
        if idle and now - self._saved_at > _IDLE_SAVE_SECONDS:
            self._flown_to = (gathering.offset, gathering.sequence_number)
            self._save()
            self._saved_at = now
        self._maintain(now)
        if now >= self._retry_at:
            self._flush(wait=True)
            raise Rejoin
        if self._watches and now - self._looked_at > self._run.config.new_tables_interval_seconds:
            self._looked_at = now
            if unknown_tables(self._run):
                self._flush(wait=True)
                raise Rejoin

    def _maintain(self, now: float) -> None:
        """Let the target keep house, as a flight of its own so that it never meets an apply."""
        target = self._run.pipeline.target
        every = target.maintenance_interval_seconds
        if every <= 0 or self._flight is not None or now - self._maintained_at < every:
            return
        self._maintained_at = now
        tables = sorted(self._floors)

        def maintain() -> dict[TableId, Exception]:
            try:
                target.maintain(self._run.target_context(), tables)
            except Exception as error:  # noqa: BLE001 - housekeeping that fails is tried again later; data is not touched
                log.warning("maintenance.failed", error=str(error))
            return {}

        self._flight = self._flusher.submit(maintain)

    def _finish_quietly(self) -> None:
        """After an error: the batch in the air has ended (the pool was waited for); give its space back."""
        for item in self._flown:
            item.close()


def keep_operations(batch: ChangeBatch, dropped: set[int]) -> ChangeBatch | None:
    """The batch without the operations in `dropped`; None when nothing is left. Numbers stay as they are."""
    import numpy as np
    import pyarrow as pa

    keep = ~np.isin(batch.op.to_numpy(zero_copy_only=False), list(dropped))
    if keep.all():
        return batch
    if not keep.any():
        return None
    mask = pa.array(keep)
    return replace(
        batch,
        op=batch.op.filter(mask),
        row=batch.row.filter(mask),
        before=None if batch.before is None else batch.before.filter(mask),
        ordinals=batch.ordinals[keep],
        unchanged={name: column.filter(mask) for name, column in batch.unchanged.items()},
        sequence_numbers=None if batch.sequence_numbers is None else batch.sequence_numbers[keep],
        timestamps=None if batch.timestamps is None else batch.timestamps[keep],
    )
