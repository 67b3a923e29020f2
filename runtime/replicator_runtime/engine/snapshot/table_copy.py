"""Copies the existing rows of one table chunk by chunk, and stores which chunks are loaded."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog

from replicator_runtime.engine.letters.copy_letters import FittingReader, letters_of_chunks
from replicator_runtime.engine.preparation.scope_edits import check_whole_updates, needs_rows
from replicator_runtime.engine.run_state.attempt_end import SnapshotsStopped
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext, TargetContext
from replicator_runtime.engine.tables.table_store import NO_ROWS, SnapshotRecord
from replicator_sdk import BatchConsumer, DDLEvent, DDLOperation, DMLEvent, DMLOperation, Position, SnapshotLoader
from replicator_sdk.errors import BugError, DataError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.timeline import step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.lifecycle.copies import Copy
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.snapshot.throttle import Throttle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import ChunkReader, EventConsumer, EventReaderDefinition, SnapshotChunk, TableSnapshot

register("engine.snapshot.planned", "engine.snapshot.chunks_loaded", "engine.snapshot.finished")
log = structlog.get_logger()
_LOOK_SECONDS = 0.5


class TableCopy:
    """Runs once, in a thread of its own, with a reader of its own.

    Args:
        lifecycle: Of all tables.
        copy: The table, and whether to stop.
        definition: For the source's reader.
        consumer: Takes the rows one by one and stays its owner's; None for a target that loads chunks: then the copy has a
            consumer of its own.
        throttle: Of all copies of the run.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        copy: Copy,
        definition: EventReaderDefinition,
        consumer: EventConsumer | None,
        throttle: Throttle,
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._copy = copy
        self._definition = definition
        self._shared = consumer
        self._refusal: DataError | None = None
        self._throttle = throttle
        selected = self._run.pipeline.selection.matches(copy.record.table)
        self._where = "" if selected is None else selected.where

    def run(self) -> None:
        """Copy all rows that the target does not hold yet; returns when the table is whole there.

        Raises:
            SnapshotsStopped: When the copy or the run is to end; loaded chunks stay at the target.
            Exception: What source or target failed with.
        """
        self._wait_for_turn()
        try:
            if self._begins_empty():
                self._begin_empty()
            else:
                self._copy_strictly_first()
        except RetryableError as error:
            if self._is_stopping:  # what it failed with is met again by the next copy, if it is an error
                raise SnapshotsStopped from error
            raise

    def _copy_strictly_first(self) -> None:
        """Copy the rows; only where a value is refused they are read once more, with what `onDataError` says."""
        try:
            self._copy_rows()
        except DataError as error:
            if self._run.config.on_data_error == "fail":
                raise
            log.warning("snapshot.refused_values", table=str(self._copy.record.table), code=error.code)
            self._refusal = error
            self._copy_rows()

    def _begins_empty(self) -> bool:
        """Whether the table is created at the target without rows.

        Raises:
            NeedsUserError: RPL-2063 for one that was begun, and that no operator has asked to be copied.
        """
        record = self._copy.record
        if self._run.config.snapshot.mode != "never" or record.wants_rows:
            return False
        if record.was_begun and (record.snapshot is None or not record.snapshot.is_empty):
            raise needs_rows(record.table)
        return True

    def _begin_empty(self) -> None:
        """Create the table at the target as it is now, or as it was where it was begun: by a run that was cut off, or at `snapshot.from`.

        The position is kept from the first time on: what was committed since is in the log, and nowhere else.
        """
        record = self._copy.record
        if self._run.pipeline.source.filters_snapshots:
            self._where = NO_ROWS
        with ExitStack() as opened:
            consumer = self._shared or self._own_consumer(opened)
            plan = record.snapshot
            progress = consumer.progress(record.table) if isinstance(consumer, BatchConsumer) else None
            if progress is not None and (plan is None or progress.snapshot_id != plan.snapshot_id):
                raise needs_rows(record.table)  # a former generation, or a table of that name, has filled it
            if plan is None:
                with self._open(opened) as snapshot:
                    check_whole_updates(record.table, snapshot, leaves_out=True)
                    plan = SnapshotRecord(uuid.uuid4().hex, (), snapshot.position, snapshot.position, where=NO_ROWS)
                    self._begin(plan, snapshot)
            else:
                self._lifecycle.begin_copy(record)
            schema, first = record.schema, Position(plan.first)
            if isinstance(consumer, SnapshotLoader):
                consumer.begin_snapshot(schema, plan.snapshot_id, first)
                consumer.finish_snapshot(schema, plan.snapshot_id, first)
            else:
                for operation in (DDLOperation.CREATE_TABLE, DDLOperation.TRUNCATE_TABLE):
                    consumer.apply_ddl(DDLEvent(plan.first, operation, schema.table, schema, is_snapshot=True))
                consumer.flush()
        self._lifecycle.end_copy(record)
        failpoint("engine.snapshot.finished")
        log.info("snapshot.begun_empty", table=str(record.table), position=str(plan.first))

    def _copy_rows(self) -> None:
        record = self._copy.record
        with ExitStack() as opened:
            consumer = self._shared or self._own_consumer(opened)
            with self._open(opened) as snapshot:
                beside = record.beside and self._run.pipeline.target.copies_beside
                if not beside and record.released and (record.snapshot is None or not record.snapshot.chunks):
                    self._read_once(snapshot)
                check_whole_updates(record.table, snapshot, leaves_out=bool(self._where))
                plan = _new_plan(snapshot, (), self._where) if beside else _plan(record, snapshot, self._where)
                if record.snapshot is not None and plan is not record.snapshot and isinstance(consumer, SnapshotLoader):
                    self._recover_count(consumer, record.snapshot)
                at_once = beside or (plan is not record.snapshot and len(snapshot.chunks) == 1)
                self._begin(plan, snapshot)
                if not isinstance(consumer, SnapshotLoader):
                    self._apply_rows(consumer, plan, snapshot)
                elif at_once:
                    self._load_whole(consumer, plan, snapshot)
                else:
                    self._load(consumer, plan, snapshot)
        # Before the record says that the copy is whole, and its plan may be forgotten.
        self._run.totals.save_soon(at_once=True)
        self._lifecycle.end_copy(record)
        failpoint("engine.snapshot.finished")
        log.info("snapshot.end", table=str(record.table), position=str(plan.first))

    def _own_consumer(self, opened: ExitStack) -> EventConsumer:
        consumer = self._run.pipeline.target.create_consumer(TargetContext(self._run, self._copy.stop))
        opened.callback(consumer.stop)
        with step("target.start", self._copy.record.table):
            consumer.start()
        return self._run.archive.wrapped(consumer)

    def _open(self, opened: ExitStack) -> TableSnapshot:
        record, source = self._copy.record, self._run.pipeline.source
        definition = replace(self._definition, conditions={record.table: self._where} if self._where else {})
        reader = source.create_snapshot_reader(definition, SourceContext(self._run, self._copy.stop))
        assert reader is not None, "asked when the attempt began"
        opened.callback(reader.close)
        kept = record.snapshot if record.snapshot is not None and record.snapshot.where == self._where else None
        with step("copy.plan", record.table):
            return reader.open(record.schema, kept.chunks if kept is not None else ())

    def _begin(self, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """Store the plan; durable when this returns."""
        record = self._copy.record
        if plan is not record.snapshot:  # the log of a resumed one is applied from where its first rows were read
            record.learn_from_copy(Position(snapshot.position), snapshot.schema)
            self._run.table_store.note_remains(record)
            record.was_begun = True
        record.snapshot = plan
        if self._refusal is None:
            self._lifecycle.begin_copy(record)
        self._lifecycle.save(record)
        log.info(
            "snapshot.begin", table=str(record.table), position=str(snapshot.position), chunks=len(snapshot.chunks)
        )
        failpoint("engine.snapshot.planned")

    def _read_once(self, snapshot: TableSnapshot) -> None:
        """Read all rows and keep none, before the first commit of a new plan removes the rows that the target has.

        The table failed for long, and a value that made it fail may still be there: then the target keeps its rows.
        """
        for chunk in snapshot.chunks:
            for _ in snapshot.read(chunk):
                self._check_stop()

    def _check_stop(self) -> None:
        if self._is_stopping:
            raise SnapshotsStopped

    @property
    def _is_stopping(self) -> bool:
        return self._copy.stop.is_set() or self._run.stop.is_set()

    def _wait_for_turn(self) -> float:
        """Wait until the copies of the run may read on; when this one does."""
        self._check_stop()
        while (seconds := self._throttle.delay()) > 0:
            self._copy.stop.wait(min(_LOOK_SECONDS, seconds))
            self._check_stop()
        return self._throttle.now()

    def _load(self, loader: SnapshotLoader, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """Let the target load the chunks that it does not hold yet, a wave a commit."""
        schema, first = snapshot.schema, Position(plan.first)
        held = loader.begin_snapshot(schema, plan.snapshot_id, first)
        if held:
            self._recover_count(loader, plan)
        waiting = [c for c in snapshot.chunks if c.index not in held]
        if waiting:
            # Rows of one position need no overlap; chunks read at another one stretch it.
            first_read = plan.first if held else snapshot.position
            last_read = max(plan.last, snapshot.position)
            if (plan.first, plan.last) != (first_read, last_read):
                plan.first, plan.last = first_read, last_read
                self._lifecycle.save(self._copy.record)
            first = Position(plan.first)
        read = self._reader(plan, snapshot, waiting)
        progress, total = self._run.progress, len(snapshot.chunks)
        progress.snapshot_chunks(schema.table, 0, total - len(waiting), total)
        for wave in _waves(waiting, one_by_one=self._throttle.is_on):
            began = self._wait_for_turn()
            with step("copy.load", schema.table):
                rows = loader.load_chunks(schema, plan.snapshot_id, wave, read)
            self._throttle.took(rows, began)
            held = held | {c.index for c in wave}
            progress.snapshot_chunks(schema.table, rows, len(held), total)
            self._run.totals.copied(schema.table, plan.snapshot_id, rows)
            self._lifecycle.progressed(schema.table)
            failpoint("engine.snapshot.chunks_loaded")
        self._stretch(plan, snapshot)
        loader.finish_snapshot(schema, plan.snapshot_id, first)

    def _recover_count(self, loader: SnapshotLoader, plan: SnapshotRecord) -> None:
        """Count the rows of the plan that were loaded before a kill, or when the answer to a commit was lost, if the target has them."""
        record = self._copy.record
        progress = loader.progress(record.table) if isinstance(loader, BatchConsumer) else None
        self._run.totals.recover_copy(record.table, plan.snapshot_id, progress)

    def _load_whole(self, loader: SnapshotLoader, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """Let the target load all chunks of a new plan, which it may do in one commit, and does where the copy is made beside the table."""

        def all_read() -> None:
            failpoint("engine.snapshot.chunks_loaded")
            self._stretch(plan, snapshot)

        schema, progress, total = snapshot.schema, self._run.progress, len(snapshot.chunks)
        progress.snapshot_chunks(schema.table, 0, 0, total)
        self._check_stop()
        began = self._throttle.now()
        read = self._reader(plan, snapshot, snapshot.chunks)
        with step("copy.load", schema.table):
            rows = loader.load_whole(schema, plan.snapshot_id, Position(plan.first), snapshot.chunks, read, all_read)
        self._throttle.took(rows, began)
        progress.snapshot_chunks(schema.table, rows, total, total)
        self._run.totals.copied(schema.table, plan.snapshot_id, rows)
        self._lifecycle.progressed(schema.table)

    def _reader(self, plan: SnapshotRecord, snapshot: TableSnapshot, waiting: Sequence[SnapshotChunk]) -> ChunkReader:
        """What reads chunks for the target; rows that it leaves out are kept as dead letters, durable when this returns.

        Raises:
            DataError: The refusal, where the source marks no values, or the table has no key to know rows by.
            NeedsUserError: RPL-2062 where a row could be left out and not be completed by the log.
        """
        if len(waiting) == len(
            snapshot.chunks
        ):  # what is kept of rows read before is of a position that is not the copy's any more
            self._run.letters.forget_copy(plan.snapshot_id)
        if self._refusal is None:
            return snapshot.read
        puts_aside, schema = self._run.config.on_data_error == "lane", snapshot.schema
        if snapshot.read_marked is None or (puts_aside and not schema.primary_key):
            raise self._refusal
        if puts_aside:
            # Rows read at one position are aside exactly where they have a letter; of others the log decides, by whole rows.
            check_whole_updates(self._copy.record.table, snapshot, leaves_out=snapshot.end() is not None)
            most = self._run.config.dead_letters.max_rows
            letters = letters_of_chunks(snapshot, waiting, most, self._check_stop)
            self._run.letters.keep_of_copy(schema, plan.snapshot_id, Position(plan.first), letters)
        return FittingReader(snapshot.read_marked, schema, puts_aside)

    def _stretch(self, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """Let the overlap reach as far as the rows may be late, also those that an earlier run loaded."""
        end = snapshot.end()
        if end is not None and plan.last < end:
            plan.last = end
            self._lifecycle.save(self._copy.record)

    def _apply_rows(self, consumer: EventConsumer, plan: SnapshotRecord, snapshot: TableSnapshot) -> None:
        """For targets that take rows one by one; a table that was begun is emptied first."""
        schema, offset = snapshot.schema, snapshot.position
        for operation in (DDLOperation.CREATE_TABLE, DDLOperation.TRUNCATE_TABLE):
            consumer.apply_ddl(DDLEvent(offset, operation, schema.table, schema, is_snapshot=True))
        read = self._reader(plan, snapshot, snapshot.chunks)
        for done, chunk in enumerate(snapshot.chunks, 1):
            began = self._wait_for_turn()
            rows = 0
            for batch in read(chunk):
                self._check_stop()
                rows += batch.num_rows
                for row in pa.Table.from_batches([batch]).to_pylist():
                    event = DMLEvent(offset, DMLOperation.INSERT, schema.table, row, is_snapshot=True)
                    consumer.apply_dml(event)
            consumer.flush()
            self._throttle.took(rows, began)
            self._run.progress.snapshot_chunks(schema.table, rows, done, len(snapshot.chunks))
        plan.first = offset
        self._stretch(plan, snapshot)


def _plan(record: TableRecord, snapshot: TableSnapshot, where: str) -> SnapshotRecord:
    """The kept plan, or a new one: where none is kept, none can be resumed, the table has changed its columns, or other rows are copied."""
    kept = record.snapshot
    is_same = kept is not None and kept.where == where and snapshot.schema == record.schema
    if kept is None or not is_same or not kept.chunks or not snapshot.resumable:
        return _new_plan(snapshot, snapshot.chunks if snapshot.resumable else (), where)
    if [c.to_json() for c in kept.chunks] != [c.to_json() for c in snapshot.chunks]:
        raise BugError("a resumed snapshot changed its chunks", code="RPL-9008", table=str(snapshot.schema.table))
    return kept


def _new_plan(snapshot: TableSnapshot, chunks: Sequence[SnapshotChunk], where: str) -> SnapshotRecord:
    """A plan that is resumed with `chunks`; without any it is never resumed, as where one commit is to take all of them."""
    return SnapshotRecord(uuid.uuid4().hex, tuple(chunks), snapshot.position, snapshot.position, where=where)


def _waves(chunks: Sequence[SnapshotChunk], *, one_by_one: bool) -> list[Sequence[SnapshotChunk]]:
    """Chunks that are loaded in one commit: small tables at once, large ones in steps worth keeping.

    A commit costs about half a second and a lost wave is read again, so a wave is at most a sixteenth of the table and
    at least four chunks. Copies that are throttled read a chunk at a time.
    """
    size = 1 if one_by_one else max(4, -(-len(chunks) // 16))
    return [chunks[i : i + size] for i in range(0, len(chunks), size)]
