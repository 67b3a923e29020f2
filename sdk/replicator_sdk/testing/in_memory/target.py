"""A target in memory: atomic commits, fencing, idempotent replays, snapshots. For tests of the runtime and of the kit."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.config import PluginConfig
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.distributed.slices import (
    RangeConsumer,
    SliceChanges,
    SliceOutcome,
    TableTally,
    read_partitions,
    valid_through,
)
from replicator_sdk.errors import DataError, FencedError, SnapshotNeededError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import DeltaTarget, EventConsumer, SnapshotLoader, TableProgress
from replicator_sdk.testing.histories.batches import from_batch
from replicator_sdk.testing.histories.reference import Reference, ReferenceTable, RowChange
from replicator_sdk.testing.histories.values import Row, comparable_key


@dataclass
class MemoryStore:
    """What a memory target holds; outlives its consumers, as a warehouse outlives the replicator's process.

    Attributes:
        reference: Tables and rows.
        progress: Each table's own last commit.
        chunks: Table → snapshot plan and the indexes of its chunks that are in.
        batches: Identities of the batches applied, in order; batches that were there already are not among them.
        databases: Databases that exist, also without a table; each with whether a replicator created it.
        lock: Held during each commit.
    """

    reference: Reference = field(default_factory=Reference)
    progress: dict[TableId, TableProgress] = field(default_factory=dict)
    chunks: dict[TableId, tuple[str, set[int]]] = field(default_factory=dict)
    batches: list[tuple[TableId, BatchIdentity]] = field(default_factory=list)
    databases: dict[str, bool] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    _stores: ClassVar[dict[str, MemoryStore]] = {}

    @classmethod
    def of(cls, name: str) -> MemoryStore:
        """The store called `name`; made at the first call."""
        return cls._stores.setdefault(name, cls())

    @classmethod
    def forget(cls, name: str) -> None:
        """Drop the store called `name`."""
        cls._stores.pop(name, None)

    def rows(self, table: TableId) -> list[Row]:
        """A table's rows now; empty when it is not there."""
        with self.lock:
            found = self.reference.tables.get(table)
            return [dict(row) for row in found.rows] if found else []


class MemoryTargetConfig(PluginConfig):
    """Settings: `store` names the `MemoryStore` to write to."""

    store: str = "default"


class MemoryTarget(DeltaTarget[MemoryTargetConfig]):
    """Keeps tables in a `MemoryStore`."""

    name: ClassVar[str] = "memory"
    title: ClassVar[str] = "Tables in memory, for tests"
    config_type: ClassVar[type[PluginConfig]] = MemoryTargetConfig

    @property
    def store(self) -> MemoryStore:
        """The store it writes to."""
        return MemoryStore.of(self.config.store)

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        """A consumer writing under the context's epoch."""
        return MemoryConsumer(self.store, context)


class MemoryConsumer(RangeConsumer, SnapshotLoader):
    """Applies row by row through the reference interpreter, each batch as a whole or not at all."""

    follows_databases: ClassVar[bool] = True

    def __init__(self, store: MemoryStore, context: DeltaTargetContext) -> None:
        self._store = store
        self._context = context

    def progress(self, table: TableId) -> TableProgress | None:
        """The table's last commit."""
        return self._store.progress.get(table)

    def can_rename(self, former: TableId, table: TableId) -> bool:  # noqa: ARG002 - any name will do
        """Always."""
        return True

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure, unless it is in already."""
        if event.operation in (DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE):
            self._change_database(event)
            return
        with self._store.lock:
            renames = event.operation is DDLOperation.RENAME_TABLE
            table = event.prev_table if renames and event.prev_table else event.table
            for name in (table, event.table):
                self._check_epoch(name, self._context.epoch)
            position = event.position
            done = self._store.progress.get(event.table)
            if position is not None and done is not None and position <= done.position:
                return
            if renames and (done is not None or table not in self._store.progress):
                raise _not_renamed(event)
            with self._commit({table, event.table}):
                self._store.reference.apply(event)
                if table in self._store.chunks:
                    self._store.chunks[event.table] = self._store.chunks.pop(table)
                previous = self._store.progress.pop(table, None)
                if position is not None and event.operation is not DDLOperation.DROP_TABLE:
                    self._store.progress[event.table] = replace(
                        previous or TableProgress(self._context.generation, self._context.epoch, position),
                        epoch=self._context.epoch,
                        position=position,
                        last_sequence=event.sequence_number,
                    )

    def _change_database(self, event: DDLEvent) -> None:
        """Note that the database exists, or forget it: one that this replicator created, and that holds no table."""
        name, databases = event.table.database, self._store.databases
        with self._store.lock:
            if event.operation is DDLOperation.CREATE_DATABASE:
                databases.setdefault(name, True)
            elif databases.get(name) and all(table.database != name for table in self._store.reference.tables):
                del databases[name]

    def delete_table(self, table: TableId) -> str:
        """Drop it with its rows."""
        with self._store.lock:
            self._check_epoch(table, self._context.epoch)
            self._store.reference.tables.pop(table, None)
            self._store.progress.pop(table, None)
            self._store.chunks.pop(table, None)
        return ""

    def apply_batch(self, changes: TableChanges) -> None:
        """Apply all changes and the progress under one lock; a change that does not fit changes nothing."""
        with self._store.lock:
            self._check_epoch(changes.table, changes.identity.epoch)
            done = self._store.progress.get(changes.table)
            if done is not None and changes.identity.position <= done.position:
                return
            with self._commit({changes.table}):
                table = self._store.reference.create(changes.schema)
                for batch in changes.batches():
                    for change in from_batch(batch):
                        if not _is_dropped(table, change, changes):
                            table.apply(change, overlap=changes.overlap)
                self._store.progress[changes.table] = TableProgress.of(changes.identity)
                self._store.batches.append((changes.table, changes.identity))

    def apply_slice(self, changes: SliceChanges) -> SliceOutcome:
        """Read every partition here, pickled as for another process, and apply table by table."""
        read = pickle.loads(pickle.dumps(changes.read))  # noqa: S301 - packed in the same line
        found = read_partitions(read, pickle.loads(pickle.dumps(changes.slice.partitions)), changes.tables)  # noqa: S301
        wanting = {schema.table for schema in found.seen}
        applied: dict[TableId, TableTally] = {}
        failures: dict[TableId, Exception] = {}
        for table in found.tallies.keys() - wanting:
            try:
                with self._store.lock:
                    done, tally = self._store.progress.get(table), found.tallies[table]
                    is_new = done is None or not changes.identity.position <= done.position
                    self.apply_batch(found.changes(table, changes.identity, overlap=changes.overlap))
                    if is_new:
                        self._store.progress[table] = changes.progress(table, tally)
                applied[table] = tally if is_new else TableTally()
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001 - the caller decides
                failures[table] = error
        return SliceOutcome(applied, failures, tuple(found.seen), valid_through(changes.slice, found.read_until))

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Empty the table, unless it holds chunks of this very plan."""
        with self._store.lock:
            self._check_epoch(schema.table, self._context.epoch)
            known, loaded = self._store.chunks.get(schema.table, ("", set()))
            if known != snapshot_id:
                self._store.reference.tables.pop(schema.table, None)
                self._store.reference.create(schema)
                self._store.chunks[schema.table] = (snapshot_id, loaded := set())
                self._store.progress[schema.table] = self._progress(position, snapshot_id, frozenset())
            return frozenset(loaded)

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        """Read chunks here and add their rows in one commit."""
        wanted = [chunk for chunk in chunks if chunk.index not in self._store.chunks[schema.table][1]]
        rows = [row for chunk in wanted for batch in read(chunk) for row in batch.to_pylist()]
        with self._store.lock:
            self._check_epoch(schema.table, self._context.epoch)
            self._store.reference.tables[schema.table].rows.extend(rows)
            loaded = self._store.chunks[schema.table][1]
            loaded.update(chunk.index for chunk in wanted)
            done = self._store.progress[schema.table]
            self._store.progress[schema.table] = replace(
                self._progress(done.position, snapshot_id, frozenset(loaded)),
                snapshot_rows=done.snapshot_rows + len(rows),
            )
        return len(rows)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """Sets the table's position to `position`, unless it is beyond it already."""
        with self._store.lock:
            self._check_epoch(schema.table, self._context.epoch)
            done = self._store.progress[schema.table]
            if done.snapshot_chunks is not None:
                self._store.progress[schema.table] = replace(
                    self._progress(position, snapshot_id, None), snapshot_rows=done.snapshot_rows
                )

    def stop(self) -> None:
        """Nothing to release."""

    @contextmanager
    def _commit(self, tables: AbstractSet[TableId]) -> Iterator[None]:
        """All that the block changes of these tables, or nothing."""
        there, progress = self._store.reference.tables, self._store.progress
        rows = {
            t: ReferenceTable(found.schema, [dict(r) for r in found.rows]) for t, found in there.items() if t in tables
        }
        positions = {table: progress[table] for table in tables if table in progress}
        batches = len(self._store.batches)
        try:
            yield
        except BaseException:
            for table in tables:
                there.pop(table, None)
                progress.pop(table, None)
            there.update(rows)
            progress.update(positions)
            del self._store.batches[batches:]
            raise
        for table in tables & there.keys():
            self._context.metrics.stored(table, TableStorage(rows=len(there[table].rows), deleted_rows=0))

    def _progress(self, position: Position, snapshot_id: str, chunks: frozenset[int] | None) -> TableProgress:
        return TableProgress(
            self._context.generation, self._context.epoch, position, snapshot_chunks=chunks, snapshot_id=snapshot_id
        )

    def _check_epoch(self, table: TableId, epoch: int) -> None:
        done = self._store.progress.get(table)
        if done is not None and done.epoch > epoch:
            raise FencedError(
                f"epoch {epoch} writes to a table that epoch {done.epoch} has written",
                code="RPL-9106",
                hint="a newer run owns the replicator; this one ends",
                table=str(table),
            )


def _not_renamed(event: DDLEvent) -> SnapshotNeededError:
    return SnapshotNeededError(
        f"{event.prev_table} is not at the target, or a table of its new name is",
        code="RPL-9118",
        hint="nothing to do: the table is copied under its new name",
        table=str(event.table),
    )


def _is_dropped(table: ReferenceTable, change: RowChange, changes: TableChanges) -> bool:
    """Whether an update is left out because the values that it did not send are nowhere and it is undone later.

    Raises:
        SnapshotNeededError: When a row moves in an overlap and the update did not send all of it.
        DataError: When the row whose values it needs is not there.
    """
    if not change.unchanged:
        return False
    moved = change.before is not None and comparable_key(table.schema, change.before) != comparable_key(
        table.schema, change.row
    )
    if moved and changes.overlap:
        raise SnapshotNeededError(
            "an update in an overlap moves a row and does not send all of it",
            code="RPL-9116",
            hint="nothing to do: the table is copied again",
            table=str(table.schema.table),
        )
    if table.find(change.row if change.before is None else change.before) is not None:
        return False
    if changes.drops_lost_updates:
        return True
    raise DataError(
        "an update does not send all columns of a row that is not there",
        code="RPL-9117",
        hint="copy the table again",
        table=str(table.schema.table),
    )
