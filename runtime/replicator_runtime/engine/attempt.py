"""One attempt of a run: from the saved offset until the end, a stop, tables that join, or an error."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from replicator_runtime.engine.apply import rejoining
from replicator_runtime.engine.apply.applier import Applier, BatchApplier, RowApplier
from replicator_runtime.engine.apply.lane_applier import LaneApplier
from replicator_runtime.engine.lanes.lanes import Lanes
from replicator_runtime.engine.lifecycle.old_schemas import forget_old_schemas
from replicator_runtime.engine.preparation.created_tables import create_tables, refuse_lost_state
from replicator_runtime.engine.preparation.discovery import discover, gone_tables
from replicator_runtime.engine.preparation.log_preparation import prepare_log
from replicator_runtime.engine.preparation.low_watermarks import copied_watermark, find_watermarks
from replicator_runtime.engine.preparation.new_names import schemas_at
from replicator_runtime.engine.preparation.paused_tables import open_lanes
from replicator_runtime.engine.preparation.remains import discard_remains
from replicator_runtime.engine.preparation.renames import finish_renames
from replicator_runtime.engine.run_state.attempt_end import Rejoin, SnapshotsStopped
from replicator_runtime.engine.run_state.plugin_contexts import SourceContext, TargetContext, takes_snapshots
from replicator_runtime.engine.slices.distributed_stream import DistributedStream
from replicator_runtime.engine.slices.late_positions import end_idle_pauses, leave_in_log, refuse_late_tables
from replicator_runtime.engine.slices.late_tables import LateTables
from replicator_runtime.engine.slices.slice_store import SliceStore
from replicator_runtime.engine.snapshot.snapshots import Snapshots
from replicator_runtime.engine.stream.stream import Stream
from replicator_runtime.engine.structure.decided_drops import finish_drops
from replicator_runtime.engine.structure.policy import check_source
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.tables.table_watermark import Recount, TableWatermark
from replicator_sdk import (
    BatchConsumer,
    EventReaderDefinition,
    Position,
    RangeConsumer,
    SnapshotLoader,
    TableSchema,
)
from replicator_sdk.timeline import step, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.maintenance.maintenance import Maintenance
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import (
        EventConsumer,
        Offset,
        TableId,
    )

log = structlog.get_logger()
_STEPS: Final = {
    "source.discover": "reads the source's catalogue",
    "source.prepare": "prepares the source's log",
    "source.connect": "connects to the source's log",
    "target.start": "starts the target",
    "target.progress": "asks the target how far each table is",
}
"""Steps before the stream begins → what a display says of them."""


class Attempt:
    """One instance per attempt; used by the engine's main thread.

    Args:
        lifecycle: Of all tables; it outlives the attempt.
        snapshots: The run's copies, for a target that loads chunks; they go on when the attempt ends.
        maintenance: The run's.
        goal: The offset to stop at; None to go on for ever.
    """

    def __init__(
        self, lifecycle: TableLifecycle, snapshots: Snapshots, maintenance: Maintenance, goal: Offset | None
    ) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._began = time.monotonic()
        self._snapshots = snapshots
        self._maintenance = maintenance
        self._goal = goal
        self._source = self._run.pipeline.source
        self._lanes = Lanes(self._run)
        self._exit = ExitStack()
        self._consumer: EventConsumer
        self._applier: Applier
        self._applied: dict[TableId, TableWatermark] | None = None

    def run(self) -> None:
        """Continue from the saved offset, which is loaded, as is what is stored of the tables.

        Raises:
            Rejoin: When tables are to join; the next attempt follows at once.
            Exception: Anything source, target or state failed with.
        """
        with self._exit:
            self._exit.callback(self._lifecycle.positions.save)
            self._exit.callback(self._run.totals.save_soon, at_once=True)
            forget_old_schemas(self._run, self._lifecycle.records.values())
            self._lifecycle.takes_snapshots = takes_snapshots(self._run, self._definition({}))
            check_source(self._run.config.ddl_policies, takes_snapshots=self._lifecycle.takes_snapshots)
            with self._step("source.discover"):
                records = discover(self._lifecycle)
            if self._snapshots.begin_attempt() and len(records) < self._selected():
                raise Rejoin  # a table that is gone was copied until now: only another discovery finds that it is gone
            self._lifecycle.begin_attempt(records)
            if not self._snapshots.running:  # else a copy may begin another plan, or put rows aside, meanwhile
                self._tidy_letters()
            consumer = self._run.pipeline.target.create_consumer(TargetContext(self._run))
            self._exit.callback(consumer.stop)
            self._lifecycle.takes_lanes = isinstance(consumer, BatchConsumer)
            with self._step("target.start"):
                consumer.start()
            self._run.archive.begin_attempt(consumer)
            self._consumer = self._run.archive.wrapped(consumer)
            finish_renames(self._lifecycle, self._consumer)
            if finish_drops(self._lifecycle, self._consumer):
                raise Rejoin
            discard_remains(self._lifecycle, self._consumer)
            applier = self._make_applier(self._consumer)
            self._exit.callback(applier.close)
            self._applier = LaneApplier(applier, self._lanes, self._lifecycle.records)
            self._exit.callback(self._applier.close)
            if self._lifecycle.takes_snapshots:
                self._with_snapshots(records)
            else:
                self._without_snapshots(records)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """A step before the stream begins; a display says that it is under way."""
        with step(name), self._run.progress.doing(_STEPS[name]):
            yield

    def _tidy_letters(self) -> None:
        """Dead letters are those of the tables that there are, and under the names that these have."""
        records = self._lifecycle.records.values()
        self._run.letters.forget_others({record.copy_id for record in records})
        renamed = {
            record.copy_id: record.table for record in records if record.copy_id and record.named_since is not None
        }
        self._run.letters.name_copies(renamed)

    def _know_run(self) -> None:
        """All tables that can be asked how far they are have been: this run writes them from now on."""
        self._run.known_runs.add({record.copy_id for record in self._lifecycle.records.values()})

    def _selected(self) -> int:
        return sum(record.selected for record in self._lifecycle.records.values())

    def _make_applier(self, consumer: EventConsumer) -> Applier:
        if isinstance(consumer, BatchConsumer):
            return BatchApplier(consumer, self._run.limits.parallel_tables, self._maintenance.locks, self._run.letters)
        return RowApplier(consumer, self._run.letters)

    def _definition(self, schemas: dict[TableId, TableSchema]) -> EventReaderDefinition:
        pipeline = self._run.pipeline
        narrowed = pipeline.selection.narrowed({**self._lifecycle.records, **schemas})
        stopped = frozenset(self._lifecycle.stopped)
        selects = pipeline.selection.selects
        marks = pipeline.config.on_data_error != "fail"
        return EventReaderDefinition(schemas, pipeline.out_of_range, narrowed, stopped, selects, marks_refused=marks)

    def _streamed(self, schemas: dict[TableId, TableSchema]) -> EventReaderDefinition:
        """The definition of a reader that stays in this process."""
        return replace(self._definition(schemas), reached=self._reached)

    def _reached(self, table: TableId) -> Offset | None:
        """The offset of the table's last commit; None where the target does not say.

        The target is asked before anything is applied. Afterwards the reader asks in its own thread, beside applies: then it
        is the position that the attempt found or reached, also of a table that has failed since.
        """
        if self._applied is not None:
            watermark = self._applied.get(table)
            return None if watermark is None else watermark.position.offset
        if not isinstance(self._consumer, BatchConsumer):
            return None
        progress = self._consumer.progress(table)
        return None if progress is None else progress.position.offset

    def _working(self, records: list[TableRecord]) -> list[TableRecord]:
        return [record for record in records if record.table not in self._lifecycle.stopped]

    # --- sources whose snapshots the engine coordinates

    def _with_snapshots(self, records: list[TableRecord]) -> None:
        with self._step("source.prepare"):
            prepare_log(self._lifecycle, self._definition({}), self._working(records))
        gone = gone_tables(self._lifecycle)
        with self._step("target.progress"):
            watermarks = find_watermarks(self._lifecycle, self._consumer, [*records, *gone])
        self._know_run()
        loads = isinstance(self._consumer, SnapshotLoader)
        snapshots = self._snapshots if loads else self._snapshots_by_row()
        open_lanes(self._lifecycle, self._consumer, self._lanes, watermarks)
        waiting = [r for r in self._working(records) if r.needs_snapshot and r.pause is None]
        snapshots.begin(waiting, self._definition({}))
        if (snapshots.running or snapshots.waiting) and not (watermarks and loads):
            watermarks |= self._copy_first(snapshots)
        self._stream([*records, *gone], watermarks, snapshots)

    def _snapshots_by_row(self) -> Snapshots:
        """Copies that use the attempt's consumer, and so end with the attempt."""
        snapshots = Snapshots(self._lifecycle, self._consumer, self._snapshots.throttle)
        self._exit.callback(snapshots.close)
        return snapshots

    def _copy_first(self, snapshots: Snapshots) -> dict[TableId, TableWatermark]:
        """Copy before the stream begins: it would have no table, or the target takes rows one by one.

        Where copies have consumers of their own, the stream begins a minute later beside them if it has a table then.

        Returns:
            The watermarks of the tables that are copied now.

        Raises:
            Rejoin: When tables were copied by consumers of their own: this attempt's may know them as they were before. Also
                when a table that failed may be tried again beside the copies, or an operator asks for something.
        """
        late = [r for r in self._lifecycle.records.values() if r.needs_snapshot or r.copying]
        self._run.progress.set_phase("snapshot")
        waiting_since = time.monotonic()
        with waiting("copies.wait"):
            self._wait_for(snapshots)
        self._began += time.monotonic() - waiting_since  # a later attempt does not repeat the copies
        copied = {r.table: copied_watermark(r.snapshot) for r in late if r.snapshot is not None and r.snapshot.done}
        if copied and isinstance(self._consumer, SnapshotLoader):
            self._lifecycle.settled_watermarks = copied
            raise Rejoin
        return copied

    def _wait_for(self, snapshots: Snapshots) -> None:
        """Block until no snapshot runs, or the stream may begin; tables that fail stop alone, or are tried again beside it."""
        before_the_stream = not isinstance(self._consumer, SnapshotLoader)
        copied, stream_at = False, time.monotonic() + rejoining.JOIN_SECONDS
        while True:
            running = snapshots.running or (before_the_stream and snapshots.waiting)
            copied |= snapshots.poll()
            self._lifecycle.release_failing(())
            if not running or (copied and not before_the_stream and time.monotonic() >= stream_at):
                return
            if self._run.stop.is_set() and not snapshots.running:
                raise SnapshotsStopped
            next_try = min(self._lifecycle.next_retry(()), self._lifecycle.next_copy)
            if not before_the_stream and next_try <= time.monotonic():
                raise Rejoin
            if self._run.requested.is_set() and not (before_the_stream and snapshots.running):
                raise Rejoin
            time.sleep(0.1)

    # --- sources whose reader takes snapshots by itself

    def _without_snapshots(self, records: list[TableRecord]) -> None:
        working = self._working(records)
        self._know_run()
        end_idle_pauses(self._lifecycle, working)
        watermarks: dict[TableId, TableWatermark] = {}
        if not self._distributed(working, watermarks):
            slice_store = SliceStore(self._run.store, self._run.read_offset)
            slice_store.load(())
            slice_store.check_done(self._run.saved_offset)
            refuse_late_tables(records)
            self._stream(working, watermarks, None)

    def _distributed(self, records: list[TableRecord], watermarks: dict[TableId, TableWatermark]) -> bool:
        """Stream from a log that executors read, where source and target can; False when one of them cannot."""
        self._lifecycle.reads_tables_alone = False
        if not isinstance(self._consumer, RangeConsumer):
            return False
        paused = {record.table for record in records if record.pause is not None}
        definition = self._streamed({r.table: r.schema for r in records if r.table not in paused})
        definition = replace(definition, stopped=definition.stopped | paused)
        source = self._source.create_distributed_log(definition, SourceContext(self._run))
        if source is None:
            return False
        self._exit.callback(source.close)
        self._lifecycle.reads_tables_alone = source.reads_tables_alone
        with self._step("source.connect"):
            start = source.initialize(self._run.saved_offset)
        self._keep_start(start, records)
        create_tables(self._lifecycle, self._consumer, records, watermarks, start)
        if not source.reads_tables_alone:
            refuse_late_tables(records)
        positions = leave_in_log(self._lifecycle, self._consumer, records, watermarks, start)
        self._applied = dict(watermarks)
        self._run.progress.set_phase("streaming")
        lifecycle, maintenance = self._lifecycle, self._maintenance
        late = LateTables(lifecycle, source, self._consumer, positions, maintenance.locks)
        stream = DistributedStream(lifecycle, source, self._consumer, watermarks, maintenance, late, self._began)
        stream.run(start, self._goal)
        return True

    # --- streaming

    def _stream(
        self, records: list[TableRecord], watermarks: dict[TableId, TableWatermark], snapshots: Snapshots | None
    ) -> None:
        own = snapshots is None
        schemas = self._schemas(records, None if own else watermarks)
        lanes, maintenance = self._lanes, self._maintenance
        stream = Stream(self._lifecycle, self._applier, schemas, watermarks, lanes, snapshots, maintenance, self._began)
        reader = self._source.create_reader(self._streamed(schemas), SourceContext(self._run), stream.emitter)
        self._exit.callback(reader.close)
        with self._step("source.connect"):
            start = reader.initialize(self._run.saved_offset)
        if own:
            self._keep_start(start, records)
            reader.capture(list(schemas.values()))
            create_tables(self._lifecycle, self._consumer, records, watermarks, start)
        for table, watermark in watermarks.items():
            selected = self._run.pipeline.selection.matches(table)
            scope = None if selected is None else TableScope.of(selected)
            record = self._lifecycle.records.get(table)
            watermark.filtered = scope is not None and bool(scope.left_out)
            watermark.filtered |= record is not None and record.keeps_rows
            watermark.is_part = record is not None and record.snapshot is not None and bool(record.snapshot.where)
            watermark.lacks_rows = watermark.is_part or (scope is not None and scope.lacks_written_rows)
            watermark.recount = self._recount(table, watermark)
        self._run.totals.save()
        self._applied = dict(watermarks)
        stream.start(start, self._run.saved_sequence)
        self._run.progress.set_phase("streaming")
        stream.run(reader, self._later_goal(records), self._goal or self._source.latest_offset())

    def _recount(self, table: TableId, watermark: TableWatermark) -> Recount | None:
        """What the table has and no count has: changes that were applied before a kill. What is in its lane is counted when the target has it."""
        record, saved = self._lifecycle.records.get(table), self._run.saved_offset
        copy = None if record is None else record.snapshot
        first = None if copy is None else Position(copy.first)
        copy_id = "" if record is None else record.copy_id
        has_lane = table in self._lanes
        found = self._lanes[table].base if has_lane else watermark.position
        begin = self._run.totals.begin(table, copy_id, first, found, saved, has_lane=has_lane)
        return None if begin is None else Recount(begin, found)

    def _schemas(
        self, records: list[TableRecord], watermarks: dict[TableId, TableWatermark] | None
    ) -> dict[TableId, TableSchema]:
        """The schemas as of the saved offset, of the tables that take changes."""
        taking = [r for r in records if watermarks is None or r.table in watermarks]
        return schemas_at(taking, self._run.saved_offset)

    def _keep_start(self, start: Offset, records: list[TableRecord]) -> None:
        """Save where the first start begins: a retry after an error before the first batch must not begin later."""
        if self._run.saved_offset is None:
            refuse_lost_state(self._consumer, records, self._run.generation)
            self._run.save_offset(start, 0)

    def _later_goal(self, records: list[TableRecord]) -> Offset | None:
        """The goal, or the end of the last overlap: before that a resumed table is not consistent."""
        if self._goal is None:
            return None
        return max([self._goal, *(r.snapshot.last for r in records if r.snapshot is not None and r.selected)])
