"""One attempt of a run: from the saved offset until the end, a stop, tables that join, or an error."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.apply import Applier, BatchApplier, RowApplier
from replicator_runtime.engine.discovery import discover, mark_failing
from replicator_runtime.engine.distributed_stream import DistributedStream
from replicator_runtime.engine.error_policy import Verdict, verdict
from replicator_runtime.engine.floors import copied_floor, find_floors
from replicator_runtime.engine.gather import TableFloor
from replicator_runtime.engine.preparation import prepare_log
from replicator_runtime.engine.progress import TableState
from replicator_runtime.engine.slice_book import SliceBook
from replicator_runtime.engine.snapshots import Snapshots, SnapshotsStopped
from replicator_runtime.engine.stream import Stream
from replicator_sdk import (
    BatchConsumer,
    DDLEvent,
    DDLOperation,
    EventReaderDefinition,
    Position,
    RangeConsumer,
    SnapshotLoader,
    TableSchema,
)

if TYPE_CHECKING:
    from replicator_runtime.engine.run import Run
    from replicator_runtime.engine.tables import TableRecord
    from replicator_sdk import (
        EventConsumer,
        Offset,
        SnapshotReader,
        TableId,
    )

log = structlog.get_logger()
_MANY_SCHEMAS = 20


class Attempt:
    """Made anew for each attempt; used by the engine's main thread, once."""

    def __init__(self, run: Run, goal: Offset | None) -> None:
        self._run = run
        self._goal = goal
        self._source = run.pipeline.source
        self._exit = ExitStack()
        self._consumer: EventConsumer
        self._applier: Applier

    def run(self) -> None:
        """Go on from the saved offset.

        Raises:
            Rejoin: When tables are to join; the next attempt follows at once.
            Exception: Anything source, target or state failed with.
        """
        with self._exit:
            self._run.load_offset()
            self._run.book.load()
            self._forget_old_schemas()
            records = discover(self._run)
            self._show(records)
            self._consumer = self._run.pipeline.target.create_consumer(self._run.target_context())
            self._exit.callback(self._consumer.stop)
            self._consumer.start()
            self._applier = self._make_applier(self._consumer)
            self._exit.callback(self._applier.close)
            reader = self._source.create_snapshot_reader(self._definition({}), self._run.source_context())
            if reader is None:
                self._without_snapshots(records)
            else:
                self._with_snapshots(records, reader)

    def _forget_old_schemas(self) -> None:
        """Drop schemas that no offset needs any more that one could rewind to."""
        if all(len(record.schemas) < _MANY_SCHEMAS for record in self._run.book.records.values()):
            return
        kept = [e.offset for e in self._run.offsets.history() if e.offset is not None]
        for record in self._run.book.records.values():
            if kept:
                record.forget_schemas_before(self._run.read_offset(kept[-1].fields))

    def _make_applier(self, consumer: EventConsumer) -> Applier:
        if isinstance(consumer, BatchConsumer):
            return BatchApplier(consumer, self._run.limits.parallel_tables)
        return RowApplier(consumer)

    def _definition(self, schemas: dict[TableId, TableSchema]) -> EventReaderDefinition:
        pipeline = self._run.pipeline
        selected = map(pipeline.selection.matches, self._run.book.records)
        narrowed = frozenset(s.table for s in selected if s is not None and s.columns is not None)
        return EventReaderDefinition(schemas, pipeline.out_of_range, narrowed)

    def _show(self, records: list[TableRecord]) -> None:
        for record in records:
            if record.table in self._run.failing:
                mark_failing(self._run, record, self._run.failing[record.table])
                continue
            record.state = TableState.PENDING if record.needs_snapshot else TableState.REPLICATING
            self._run.progress.set_table(record.table, record.state)

    # --- sources whose snapshots the engine coordinates

    def _with_snapshots(self, records: list[TableRecord], reader: SnapshotReader) -> None:
        prepare_log(self._run, self._definition({}), [r for r in records if r.table not in self._run.failing])
        gone = self._gone(records)
        floors = find_floors(self._run, self._consumer, [*records, *gone])
        working = [r for r in records if r.table not in self._run.failing]
        waiting = [r for r in working if r.needs_snapshot]
        snapshots = Snapshots(self._run, reader, self._consumer)
        self._exit.callback(snapshots.close)
        snapshots.begin(waiting)
        if waiting and (not floors or not isinstance(self._consumer, SnapshotLoader)):
            self._run.progress.set_phase("snapshot")
            self._wait_for(snapshots)
            floors |= {r.table: copied_floor(r.snapshot) for r in waiting if r.snapshot is not None and r.snapshot.done}
        self._stream([*records, *gone], floors, snapshots)

    def _gone(self, records: list[TableRecord]) -> list[TableRecord]:
        """Tables the source has no more: the log still tells what became of them, until it tells of their end."""
        known = self._run.book.records.values()
        matches = self._run.pipeline.selection.matches
        return [r for r in known if r not in records and matches(r.table) is not None and not r.needs_snapshot]

    @property
    def _isolate(self) -> bool:
        return self._run.config.on_table_error == "isolate"

    def _wait_for(self, snapshots: Snapshots) -> None:
        """Block until all snapshots ended; tables that failed stand still alone where that is asked for."""
        while True:
            running = snapshots.running
            for record, error in snapshots.finished():
                self._snapshot_ended(record, error)
            if not running:
                return
            time.sleep(0.1)

    def _snapshot_ended(self, record: TableRecord, error: Exception | None) -> None:
        if error is None:
            return
        if isinstance(error, SnapshotsStopped) or verdict(error, isolate=self._isolate) is not Verdict.TABLE:
            raise error
        log.error("table.failing", table=str(record.table), error=str(error))
        self._run.set_failing(record.table, error)
        mark_failing(self._run, record, error)
        self._run.book.save()

    # --- sources whose reader takes snapshots by itself

    def _without_snapshots(self, records: list[TableRecord]) -> None:
        working = [r for r in records if r.table not in self._run.failing]
        floors: dict[TableId, TableFloor] = {}
        if not self._distributed(working, floors):
            book = SliceBook(self._run.store, self._run.read_offset)
            book.load(())
            book.check_done(self._run.saved_offset)
            self._stream(working, floors, None)

    def _distributed(self, records: list[TableRecord], floors: dict[TableId, TableFloor]) -> bool:
        """Stream from a log that executors read, where source and target can; False when one of them cannot."""
        if not isinstance(self._consumer, RangeConsumer):
            return False
        definition = self._definition({r.table: r.schema for r in records})
        source = self._source.create_distributed_log(definition, self._run.source_context())
        if source is None:
            return False
        self._exit.callback(source.close)
        start = source.initialize(self._run.saved_offset)
        if self._run.saved_offset is None:
            self._run.save_offset(start, 0)  # where a first start begins, "the end" say, is decided once
        self._create_tables(records, floors, start)
        self._run.progress.set_phase("streaming")
        DistributedStream(self._run, source, self._consumer, floors).run(start, self._goal)
        return True

    # --- streaming

    def _stream(
        self, records: list[TableRecord], floors: dict[TableId, TableFloor], snapshots: Snapshots | None
    ) -> None:
        own = snapshots is None
        schemas = self._schemas(records, None if own else floors)
        stream = Stream(self._run, self._applier, schemas, floors, snapshots)
        reader = self._source.create_reader(self._definition(schemas), self._run.source_context(), stream.emitter)
        self._exit.callback(reader.close)
        start = reader.initialize(self._run.saved_offset)
        if own:
            reader.capture(list(schemas.values()))
            self._create_tables(records, floors, start)
        for table, floor in floors.items():
            selected = self._run.pipeline.selection.matches(table)
            floor.filtered = selected is not None and bool(selected.dml_blacklist)
        stream.start(start, self._run.saved_sequence)
        self._run.progress.set_phase("streaming")
        stream.run(reader, self._later_goal(records))

    def _schemas(
        self, records: list[TableRecord], floors: dict[TableId, TableFloor] | None
    ) -> dict[TableId, TableSchema]:
        """The schemas as of the saved offset, of the tables that take changes."""
        taking = [r for r in records if floors is None or r.table in floors]
        offset = self._run.saved_offset
        return {r.table: r.schema if offset is None else r.schema_at(offset) for r in taking}

    def _create_tables(self, records: list[TableRecord], floors: dict[TableId, TableFloor], start: Offset) -> None:
        """The reader brings existing rows itself: make sure that there are tables to take them.

        The schemas they are made with are kept first: a later start would describe them as they are by then.
        """
        self._run.book.save()
        for record in records:
            progress = self._consumer.progress(record.table) if isinstance(self._consumer, BatchConsumer) else None
            floors[record.table] = TableFloor(progress.position if progress else Position(start))
            if progress is None:
                event = DDLEvent(
                    start, DDLOperation.CREATE_TABLE, record.table, record.schema, position=Position(start)
                )
                self._consumer.apply_ddl(event)
            self._run.progress.set_table(record.table, TableState.REPLICATING)
            record.state = TableState.REPLICATING

    def _later_goal(self, records: list[TableRecord]) -> Offset | None:
        """The goal, or the end of the last overlap: before that a resumed table is not yet one moment's."""
        if self._goal is None:
            return None
        return max([self._goal, *(r.snapshot.last for r in records if r.snapshot is not None and r.selected)])
