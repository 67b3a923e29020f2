"""Parts of the recovery, removed one at a time in a process of the tests: what the twin of each kill runs with.

A part is something that makes a crash harmless. In a run that is not killed a removed part does no harm either (a test shows
that), so what a twin loses, doubles or refuses after a kill comes from the kill, and the part is what recovers from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.crash.orphans import adopt_orphans
from tests.crash.patch import Patch

if TYPE_CHECKING:
    from replicator_runtime.engine.lanes.lane import Lane
    from replicator_runtime.engine.tables.table_store import TableRecord, TableStore
    from replicator_sdk import DDLEvent, Position, TableId, TableSchema


def no_take_over(patch: Patch) -> None:
    """A dead run's lease is respected as a living one's is."""
    from replicator_state.lease.lease_holder import LeaseHolder

    patch.setattr(LeaseHolder, "is_gone", lambda self: False)


def identity_of_a_process(patch: Patch) -> None:
    """The source's identity lasts as long as the process that gave it, so the state seems to be of another source."""
    from replicator_source_sqlite.plugin import SqliteSource

    patch.setattr(SqliteSource, "identity", lambda self: f"process {os.getpid()}")


def begun_is_done(patch: Patch) -> None:
    """What a run before this one began counts as done: the target is said to hold all chunks."""
    from replicator_target_delta.consumer import DeltaConsumer
    from tests.crash.file_target import FileConsumer

    for consumer in (FileConsumer, DeltaConsumer):
        patch.setattr(consumer, "begin_snapshot", _holds_everything(consumer.begin_snapshot))
        patch.setattr(consumer, "load_whole", _loads_nothing(consumer.load_whole))


def _holds_everything(true_begin: Callable[..., Collection[int]]) -> Callable[..., Collection[int]]:
    def begin(self: Any, schema: TableSchema, snapshot_id: str, position: Position) -> Collection[int]:
        held = true_begin(self, schema, snapshot_id, position)
        return frozenset(range(1000)) if self._context.epoch > 1 else held

    return begin


def _loads_nothing(true_load: Callable[..., int]) -> Callable[..., int]:
    def load_whole(self: Any, schema: TableSchema, snapshot_id: str, position: Position, *rest: Any) -> int:
        if self._context.epoch == 1:
            return true_load(self, schema, snapshot_id, position, *rest)
        self.begin_snapshot(schema, snapshot_id, position)
        self.finish_snapshot(schema, snapshot_id, position)
        return 0

    return load_whole


def forget_chunks(patch: Patch) -> None:
    """Which chunks of which plan an earlier run loaded is unknown: neither the engine nor the target stores it."""
    from replicator_runtime.engine.tables.table_store import TableStore

    _forget_chunks_in_the_file_target(patch)
    _forget_chunks_in_delta(patch)
    true_load, loaded = TableStore.load, set[int]()

    def load(self: TableStore) -> None:
        true_load(self)
        for record in self.records.values():
            if id(self) not in loaded and record.snapshot is not None:
                record.snapshot.done = False
        loaded.add(id(self))

    patch.setattr(TableStore, "load", load)
    _forget_whose_snapshot_it_is(patch)


def _forget_whose_snapshot_it_is(patch: Patch) -> None:
    """The engine does not ask the target whether the snapshot it has planned is complete there."""
    from replicator_runtime.engine.preparation import low_watermarks as watermarks

    true_watermark = watermarks.reported_watermark

    def watermark(run: Any, consumer: Any, record: Any) -> Any:
        return true_watermark(run, consumer, record) if record.snapshot is not None and record.snapshot.done else None

    patch.setattr(watermarks, "reported_watermark", watermark)


def _forget_chunks_in_the_file_target(patch: Patch) -> None:
    from replicator_sdk import TableProgress
    from tests.crash.file_target import FileConsumer
    from tests.runtime.engine.in_memory_target import STORAGE

    true_begin = FileConsumer.begin_snapshot

    def begin(self: FileConsumer, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        self.progress(schema.table)  # reads the file
        kept = STORAGE.tables.get(schema.table)
        if kept is None:
            return true_begin(self, schema, snapshot_id, position)
        with self._commit():
            context = self._context
            STORAGE.tables[schema.table].progress = TableProgress(
                context.generation, context.epoch, position, snapshot_chunks=frozenset(), snapshot_id=snapshot_id
            )
        return frozenset()

    patch.setattr(FileConsumer, "begin_snapshot", begin)


def _forget_chunks_in_delta(patch: Patch) -> None:
    from replicator_target_delta.snapshot import TableSnapshotLoad
    from replicator_target_delta.table import TargetTable

    true_begin, true_load, true_whole = TableSnapshotLoad.begin, TableSnapshotLoad.load, TableSnapshotLoad.load_whole
    mine: dict[str, set[int]] = {}

    def begin(self: TableSnapshotLoad, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        with Patch() as here:
            here.setattr(self._table, "commit", _removing_nothing(self._table.commit))
            here.setattr(self, "_is_of", lambda attempt, snapshot_id: False)
            return true_begin(self, schema, snapshot_id, position)

    def load(self: TableSnapshotLoad, schema: Any, snapshot_id: str, chunks: Any, read: Any) -> int:
        rows = true_load(self, schema, snapshot_id, chunks, read)
        mine.setdefault(self._table.log.path, set()).update(chunk.index for chunk in chunks)
        return rows

    def load_whole(self: TableSnapshotLoad, *args: Any) -> int:
        with Patch() as here:
            here.setattr(self._table, "commit", _removing_nothing(self._table.commit))
            return true_whole(self, *args)

    patch.setattr(TableSnapshotLoad, "begin", begin)
    patch.setattr(TableSnapshotLoad, "load_whole", load_whole)
    patch.setattr(TableSnapshotLoad, "load", load)
    patch.setattr(TargetTable, "loaded_chunks", lambda self, attempt: frozenset(mine.get(self.log.path, ())))


def _removing_nothing(true_commit: Callable[..., None]) -> Callable[..., None]:
    return lambda *args, **settings: true_commit(*args, **{**settings, "remove": ()})


def start_at_the_end(patch: Patch) -> None:
    """A run goes on from where the log ends now, and not from the offset saved last."""
    from replicator_runtime.engine.run_state.run import Run

    true_load = Run.load_offset

    def load(self: Run) -> None:
        true_load(self)
        if self.saved_offset is not None and self.committed_offset is None:  # until this run saves one itself
            self.saved_offset = self.pipeline.source.latest_offset()

    patch.setattr(Run, "load_offset", load)


def ignore_overlap(patch: Patch) -> None:
    """The changes between the first rows of a resumed snapshot and its last ones are applied as if no row had them yet."""
    from replicator_runtime.engine.tables.table_watermark import TableWatermark

    patch.setattr(TableWatermark, "overlap_until", property(lambda self: None, lambda self, offset: None))


def save_early(patch: Patch) -> None:
    """The offset is saved before the target has what comes before it: what was in the air at a crash is lost."""
    from replicator_runtime.engine.stream.in_flight import InFlight

    true_take_off, true_before = InFlight.begin_batch, InFlight.apply_before

    def save(self: InFlight) -> None:
        batcher = self._tables.batcher
        self._run.save_offset(batcher.offset, batcher.sequence_number)

    def begin_batch(self: InFlight) -> None:
        save(self)
        true_take_off(self)

    def apply_before(self: InFlight, event: DDLEvent) -> bool:
        save(self)
        return true_before(self, event)

    patch.setattr(InFlight, "begin_batch", begin_batch)
    patch.setattr(InFlight, "apply_before", apply_before)


def forget_progress(patch: Patch) -> None:
    """A table's stored position is ignored: what was applied before a crash is applied again."""
    from replicator_runtime.engine.preparation import created_tables
    from replicator_runtime.engine.preparation import low_watermarks as watermarks
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import Position
    from replicator_target_bigquery.commit_log.commit import TableState
    from replicator_target_delta import table
    from replicator_target_iceberg import table as iceberg_table
    from tests.crash.file_target import FileConsumer

    true_watermark, true_created = watermarks.reported_watermark, created_tables._watermark

    def watermark(run: Any, consumer: Any, record: Any) -> Any:
        found = true_watermark(run, consumer, record)
        return None if found is None else TableWatermark(Position(record.snapshot.first))

    def created(run: Any, consumer: Any, record: Any, start: Any) -> Any:
        true_created(run, consumer, record, start)
        return TableWatermark(Position(start))

    patch.setattr(watermarks, "reported_watermark", watermark)
    patch.setattr(created_tables, "_watermark", created)
    patch.setattr(TableState, "has_reached", lambda self, position: False)
    patch.setattr(table.Attempt, "has_reached", lambda self, position: False)
    patch.setattr(iceberg_table.Attempt, "has_reached", lambda self, position: False)
    patch.setattr(FileConsumer, "checks_progress", False)


def forget_structure(patch: Patch) -> None:
    """Whether a table has a change of structure already is not checked: a repeated one is applied again."""
    from replicator_runtime.engine.stream.schema_changes import SchemaChanges
    from replicator_sdk import Position
    from replicator_target_delta.ddl.ddl_events import TableDDL
    from replicator_target_delta.table import Attempt
    from tests.crash.file_target import FileConsumer

    true_apply, true_change = SchemaChanges.apply, TableDDL.apply

    def apply(self: SchemaChanges, event: DDLEvent) -> None:
        tables = self._tables
        if event.table in tables.watermarks:
            tables.watermarks[event.table].position = Position(tables.batcher.offset)
        true_apply(self, event)

    class Blind(Attempt):
        def has_reached(self, position: Position) -> bool:
            return False

    def change(self: TableDDL, event: DDLEvent) -> None:
        with Patch() as here:
            true_begin = self._table.begin
            here.setattr(self._table, "begin", lambda: Blind((found := true_begin()).transaction, found.record))
            true_change(self, event)

    patch.setattr(SchemaChanges, "apply", apply)
    patch.setattr(TableDDL, "apply", change)
    patch.setattr(FileConsumer, "checks_structure", False)


def learn_after(patch: Patch) -> None:
    """The schema after a change of structure is kept when the target has the change, and not before."""
    from replicator_runtime.engine.stream.schema_changes import SchemaChanges

    true_change = SchemaChanges._change_schema

    def change(self: SchemaChanges, event: DDLEvent) -> None:
        true_change(self, event)
        true_note(self, self._run.table_store.record(event.table), event)

    true_note = SchemaChanges._note
    patch.setattr(SchemaChanges, "_change_schema", change)
    patch.setattr(SchemaChanges, "_note", lambda self, record, event: None)
    patch.setattr(SchemaChanges, "_finish", lambda self, event, watermark: None)


def finish_nothing(patch: Patch) -> None:
    """What comes after a change of structure that the target has already is taken for done."""
    from replicator_runtime.engine.stream.schema_changes import SchemaChanges

    patch.setattr(SchemaChanges, "_finish", lambda self, event, watermark: None)


def drop_without_a_note(patch: Patch) -> None:
    """That a table is about to be dropped at the target is not saved."""
    from replicator_runtime.engine.preparation import low_watermarks as watermarks

    patch.setattr(watermarks, "_forget_dropped", lambda run, consumer, records: None)


def rename_nothing(patch: Patch) -> None:
    """What a run before this one left to be renamed at the target is taken for done."""
    from replicator_runtime.engine.tables.table_store import TableStore

    true_load, loaded = TableStore.load, set[int]()

    def load(self: TableStore) -> None:
        true_load(self)
        for record in self.records.values() if id(self) not in loaded else ():
            record.renames = []
        loaded.add(id(self))

    patch.setattr(TableStore, "load", load)


def rename_again(patch: Patch) -> None:
    """Whether the target has renamed a table already is not checked: a repeated rename finds the new name in use."""
    from replicator_sdk.errors import SnapshotNeededError
    from replicator_target_delta.consumer import DeltaConsumer
    from tests.crash.file_target import FileConsumer
    from tests.runtime.engine.in_memory_target import STORAGE

    true_rename, true_move = FileConsumer._rename, DeltaConsumer._move

    def rename(self: FileConsumer, event: DDLEvent) -> None:
        if event.table in STORAGE.tables:
            STORAGE.tables[event.table].progress = None
        true_rename(self, event)

    def move(self: DeltaConsumer, old: Any, new: Any, *, is_free: bool) -> None:
        if not is_free:
            raise SnapshotNeededError("the name is in use", code="RPL-6411", table=str(new.table))
        true_move(self, old, new, is_free=is_free)

    patch.setattr(FileConsumer, "_rename", rename)
    patch.setattr(DeltaConsumer, "_move", move)


def rows_before_progress(patch: Patch) -> None:
    """A commit of the target `file` is two: first the rows, then how far they are."""
    from tests.crash import file_target
    from tests.runtime.engine.in_memory_target import STORAGE

    true_publish = file_target.FileConsumer._publish

    def publish(self: file_target.FileConsumer, before: Mapping[Any, Any]) -> None:
        after = dict(STORAGE.tables)
        for table, kept in after.items():
            progress = before[table].progress if table in before else None
            STORAGE.tables[table] = replace(kept, progress=progress)
        with Patch() as here:
            here.setattr(file_target, "failpoint", lambda name: None)
            true_publish(self, before)
        STORAGE.tables = after
        true_publish(self, before)

    patch.setattr(file_target.FileConsumer, "_publish", publish)


def keep_dead_session(patch: Patch) -> None:
    """A Spark session whose Java virtual machine is gone is used on."""
    from replicator_runtime.spark import session

    patch.setattr(session, "is_dead", lambda found: False)


def leave_files(patch: Patch) -> None:
    """The files that a killed Java virtual machine left stay on disk."""
    from replicator_runtime.spark import scratch_folders

    patch.setattr(scratch_folders, "_sweep", lambda base: None)


def release_unnoted(patch: Patch) -> None:
    """That a table is to be copied again because it gave the log up is not saved before the offset moves."""
    from replicator_runtime.engine.tables.table_store import TableStore

    true_save = TableStore.save

    def save(self: TableStore, record: TableRecord | None = None) -> None:
        if not any(known.released and known.snapshot is None for known in self.records.values()):
            true_save(self, record)

    patch.setattr(TableStore, "save", save)


def note_no_remains(patch: Patch) -> None:
    """What an unfinished copy or a refused rename leaves at the target is not noted."""
    from replicator_runtime.engine.tables.remains import RemainsList

    patch.setattr(RemainsList, "note", lambda self, remains: None)


def end_requests_first(patch: Patch) -> None:
    """A request of an operator has its outcome before it is carried out."""
    from replicator_runtime.engine.control import control
    from replicator_sdk.failpoint import failpoint
    from replicator_state import OutcomeState

    true_done = control.Control._done

    def done(self: control.Control, request_id: str) -> Any:
        self._requests.finish(request_id, self._outcome(OutcomeState.DONE))
        failpoint("engine.request.carried_out")
        return true_done(self, request_id)

    patch.setattr(control.Control, "_done", done)


def forget_rewinds(patch: Patch) -> None:
    """A run does not finish the rewind that an earlier process began, nor see that a table went back."""
    from replicator_runtime.engine.rewind import rewind
    from replicator_runtime.engine.tables.last_positions import LastPositions

    patch.setattr(rewind, "load_note", lambda store, read_offset: None)
    patch.setattr(LastPositions, "is_older_copy", lambda self, table, copy, found, saved: False)


def forget_accepted_plan(patch: Patch) -> None:
    """A run does not know which steps of a plan an earlier one was allowed."""
    from replicator_runtime.engine.planning.approvals import Approvals

    true_load = Approvals._load
    patch.setattr(Approvals, "_load", lambda self: replace(true_load(self), applying=frozenset()))


def forget_lanes(patch: Patch) -> None:
    """What a run before this one put into the lanes of paused tables is not looked for, nor where they ended."""
    from replicator_runtime.engine.lanes import lane
    from replicator_runtime.engine.lanes.lane_ends import LaneEnds

    patch.setattr(lane, "find_path", lambda entries, base, end_of: [])
    patch.setattr(LaneEnds, "get", lambda self, name: None)


def keep_staged(patch: Patch) -> None:
    """Staged changes that the target does not have stay staged, and files that no manifest names stay in the archive."""
    from replicator_runtime.engine.archive.archive import ChangeArchive
    from replicator_runtime.engine.archive.names import lane_of
    from replicator_runtime.engine.lanes import lane

    def continued(self: Any, table: TableId, position: Position) -> Lane | None:
        base = self._manifests.ends.get(table)
        return base and lane.Lane(self._stage, lane_of(table), self._run.read_offset, base, self._names)

    patch.setattr(ChangeArchive, "_continued", continued)
    patch.setattr(ChangeArchive, "_undo_unlisted", lambda self: None)


PARTS: dict[str, Callable[[Patch], None]] = {
    "lease": no_take_over,
    "identity": identity_of_a_process,
    "begun": begun_is_done,
    "chunks": forget_chunks,
    "end": start_at_the_end,
    "order": save_early,
    "overlap": ignore_overlap,
    "progress": forget_progress,
    "structure": forget_structure,
    "commit": rows_before_progress,
    "schema": learn_after,
    "copy": finish_nothing,
    "drop": drop_without_a_note,
    "release": release_unnoted,
    "rename": rename_nothing,
    "renamed": rename_again,
    "orphans": adopt_orphans,
    "remains": note_no_remains,
    "request": end_requests_first,
    "rewound": forget_rewinds,
    "approval": forget_accepted_plan,
    "lane": forget_lanes,
    "archive": keep_staged,
    "session": keep_dead_session,
    "files": leave_files,
}


def renew_soon(patch: Patch) -> None:
    """Removes nothing: a lease is renewed after four seconds instead of ten, for a test that waits for it."""
    _acquire_for(patch, 12.0)


def lapse_soon(patch: Patch) -> None:
    """Removes nothing: a lease lapses after three seconds instead of thirty, and is waited for."""
    _acquire_for(patch, 3.0, wait_seconds=30.0)


def _acquire_for(patch: Patch, seconds: float, **settings: float) -> None:
    from replicator_state import Lease

    true_acquire = Lease.acquire.__func__  # type: ignore[attr-defined]

    def acquire(cls: type[Lease], *args: Any, **given: Any) -> Lease:
        lease: Lease = true_acquire(cls, *args, **{**given, "ttl_seconds": seconds, **settings})
        return lease

    patch.setattr(Lease, "acquire", classmethod(acquire))


NO_PARTS: dict[str, Callable[[Patch], None]] = {"soon": renew_soon, "lapse": lapse_soon}
"""They remove nothing and change times only."""


@contextmanager
def without(part: str) -> Iterator[None]:
    """While the block runs, one part of the recovery is gone, or (`NO_PARTS`) times are other ones."""
    with Patch() as patch:
        {**PARTS, **NO_PARTS}[part](patch)
        yield
