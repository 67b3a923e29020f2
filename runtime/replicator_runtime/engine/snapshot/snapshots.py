"""Copies existing rows, table by table and chunk by chunk, and stores which chunks are loaded."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog

from replicator_runtime.engine.preparation.description import describe_again
from replicator_runtime.engine.run_state.attempt_end import SnapshotsStopped
from replicator_runtime.engine.run_state.error_policy import belongs_to_table
from replicator_runtime.engine.tables.table_store import SnapshotRecord
from replicator_sdk import DDLEvent, DDLOperation, DMLEvent, DMLOperation, Position, SnapshotLoader
from replicator_sdk.errors import BugError, ReplicatorError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import EventConsumer, SnapshotChunk, SnapshotReader, TableSnapshot

register("engine.snapshot.planned", "engine.snapshot.chunks_loaded", "engine.snapshot.finished")
log = structlog.get_logger()


class Snapshots:
    """Snapshots of one attempt, several tables at once. Used by the engine's main thread."""

    def __init__(self, lifecycle: TableLifecycle, reader: SnapshotReader, consumer: EventConsumer) -> None:
        self._lifecycle = lifecycle
        self._run = run = lifecycle.run
        self._reader = reader
        self._consumer = consumer
        self._stop = False
        at_once = run.limits.parallel_tables if isinstance(consumer, SnapshotLoader) else 1
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="snapshot")
        self._futures: dict[Future[None], TableRecord] = {}
        self._later: list[TableRecord] = []

    def begin(self, records: Sequence[TableRecord]) -> None:
        """Queue the snapshots of `records`; those that failed are queued when their delay is over."""
        for record in records:
            if self._lifecycle.is_waiting(record):
                self._later.append(record)
            else:
                self._lifecycle.try_again(record)
                self._futures[self._pool.submit(self._snapshot, record)] = record

    @property
    def waiting(self) -> bool:
        """Whether any is to be tried again later."""
        return bool(self._later)

    @property
    def would_start_over(self) -> bool:
        """Whether one is running that cannot be resumed: ended now, it would begin from scratch."""
        running = (record.snapshot for future, record in self._futures.items() if not future.done())
        return any(plan is not None and not plan.chunks for plan in running)

    def poll(self) -> bool:
        """Start those whose delay is over, and find which ended; one that failed waits or stops alone.

        Returns:
            Whether any table is copied now.

        Raises:
            Exception: What concerns more than one table.
        """
        due, self._later = (
            [r for r in self._later if not self._lifecycle.is_waiting(r)],
            [r for r in self._later if self._lifecycle.is_waiting(r)],
        )
        self.begin([record for record in due if self._is_still_there(record)])
        copied = False
        for record, error in self.finished():
            if error is None:
                copied = True
            elif isinstance(error, SnapshotsStopped):
                raise error
            elif self._lifecycle.fail(record, error):
                self._later.append(record)
        return copied

    def _is_still_there(self, record: TableRecord) -> bool:
        """Whether a table whose copy failed can be copied again; one that cannot be described stops alone."""
        isolate = self._run.config.on_table_error == "isolate"
        try:
            return describe_again(self._lifecycle, record)
        except ReplicatorError as error:
            if not belongs_to_table(error, record.table, isolate=isolate):
                raise
            if self._lifecycle.fail(record, error):
                self._later.append(record)
            return False

    @property
    def running(self) -> bool:
        """Whether any is not done."""
        return any(not future.done() for future in self._futures)

    def finished(self) -> list[tuple[TableRecord, Exception | None]]:
        """Those that ended since the last call, with their error; forgotten here."""
        done = [f for f in self._futures if f.done()]
        outcomes = []
        for future in done:
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            outcomes.append((self._futures.pop(future), error))
        return outcomes

    def close(self) -> None:
        """Stop after the chunks that are being loaded, and wait for them."""
        self._stop = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.close()

    def _check_stop(self) -> None:
        if self._stop or self._run.stop.is_set():
            raise SnapshotsStopped

    def _snapshot(self, record: TableRecord) -> None:
        self._check_stop()
        kept = record.snapshot.chunks if record.snapshot else ()
        with self._reader.open(record.schema, kept) as snapshot:
            before = record.snapshot
            record.snapshot = plan = _plan(record, snapshot)
            if plan is not before:  # the log of a resumed one is applied from where its first rows were read
                record.learn_from_copy(Position(snapshot.position), snapshot.schema)
            self._lifecycle.begin_copy(record)
            self._lifecycle.save()
            log.info(
                "snapshot.begin", table=str(record.table), position=str(snapshot.position), chunks=len(snapshot.chunks)
            )
            failpoint("engine.snapshot.planned")
            if isinstance(self._consumer, SnapshotLoader):
                self._load(self._consumer, plan, snapshot)
            else:
                self._apply_rows(plan, snapshot)
        self._lifecycle.end_copy(record)
        failpoint("engine.snapshot.finished")
        log.info("snapshot.end", table=str(record.table), position=str(plan.first))

    def _load(self, loader: SnapshotLoader, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """Let the target load the chunks that it does not hold yet, a wave a commit."""
        schema, first = snapshot.schema, Position(plan.first)
        held = loader.begin_snapshot(schema, plan.snapshot_id, first)
        waiting = [c for c in snapshot.chunks if c.index not in held]
        if waiting:
            # Rows of one position need no overlap; chunks read at another one stretch it.
            plan.first = plan.first if held else snapshot.position
            plan.last = max(plan.last, snapshot.position)
            self._lifecycle.save()
            first = Position(plan.first)
        progress, total = self._run.progress, len(snapshot.chunks)
        progress.snapshot_chunks(schema.table, 0, total - len(waiting), total)
        for wave in _waves(waiting):
            self._check_stop()
            rows = loader.load_chunks(schema, plan.snapshot_id, wave, snapshot.read)
            held = held | {c.index for c in wave}
            progress.snapshot_chunks(schema.table, rows, len(held), total)
            self._run.metrics.count("dml.insert", rows, table=schema.table)
            self._lifecycle.progressed(schema.table)
            failpoint("engine.snapshot.chunks_loaded")
        self._stretch(plan, snapshot)
        loader.finish_snapshot(schema, plan.snapshot_id, first)

    def _stretch(self, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """Let the overlap reach as far as the rows may be late, also those that an earlier run loaded."""
        end = snapshot.end()
        if end is not None and plan.last < end:
            plan.last = end
            self._lifecycle.save()

    def _apply_rows(self, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """For targets that take rows one by one; a table that was begun is emptied first."""
        schema, offset = snapshot.schema, snapshot.position
        for operation in (DDLOperation.CREATE_TABLE, DDLOperation.TRUNCATE_TABLE):
            self._consumer.apply_ddl(DDLEvent(offset, operation, schema.table, schema, is_snapshot=True))
        for done, chunk in enumerate(snapshot.chunks, 1):
            self._check_stop()
            rows = 0
            for batch in snapshot.read(chunk):
                rows += batch.num_rows
                for row in pa.Table.from_batches([batch]).to_pylist():
                    event = DMLEvent(offset, DMLOperation.INSERT, schema.table, row, is_snapshot=True)
                    self._consumer.apply_dml(event)
            self._consumer.flush()
            self._run.progress.snapshot_chunks(schema.table, rows, done, len(snapshot.chunks))
        plan.first = offset
        self._stretch(plan, snapshot)


def _plan(record: TableRecord, snapshot: TableSnapshot) -> SnapshotRecord:
    """The kept plan, or a new one where none is kept, none can be resumed, or the table has changed its columns."""
    kept = record.snapshot
    if kept is None or not kept.chunks or not snapshot.resumable or snapshot.schema != record.schema:
        chunks = snapshot.chunks if snapshot.resumable else ()
        return SnapshotRecord(uuid.uuid4().hex, chunks, snapshot.position, snapshot.position)
    if [c.to_json() for c in kept.chunks] != [c.to_json() for c in snapshot.chunks]:
        raise BugError("a resumed snapshot changed its chunks", code="RPL-9008", table=str(snapshot.schema.table))
    return kept


def _waves(chunks: Sequence[SnapshotChunk]) -> list[Sequence[SnapshotChunk]]:
    """Chunks that are loaded in one commit: small tables at once, large ones in steps worth keeping.

    A commit costs about half a second and a lost wave is read again, so a wave is at most a sixteenth of the table and
    at least four chunks.
    """
    size = max(4, -(-len(chunks) // 16))
    return [chunks[i : i + size] for i in range(0, len(chunks), size)]
