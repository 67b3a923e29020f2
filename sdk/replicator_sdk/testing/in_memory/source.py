"""A source in memory: a log of transactions, snapshots, capture. For tests of the runtime and of the kit."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, cast

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Commits
from replicator_sdk.config import PluginConfig
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.discovery.table_registry import TableRegistry, TableSummary
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk, SnapshotReader, TableSnapshot
from replicator_sdk.source import DeltaSource, EventEmitter, EventReader, EventReaderDefinition, StartFrom
from replicator_sdk.testing.histories.batches import to_batch
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.reference import Change, RowChange
from replicator_sdk.testing.histories.values import Row, comparable_key
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.simulate import Simulator

_DATABASE = "memory"


@dataclass
class MemoryDatabase:
    """A database with a log of committed transactions; may be written while it is read.

    Attributes:
        simulator: Tables and how steps change them.
        log: Changes of each committed transaction.
        times: When each was committed, microseconds since 1970 UTC.
        oldest: How many transactions the log has forgotten (`forget_until`).
        created: The tables as they were created.
        identity: Its lasting identity; change it to play a replaced database.
        lock: Held while a transaction is committed.
        committed: Notified after each commit.
    """

    simulator: Simulator = field(default_factory=lambda: Simulator({}))
    log: list[tuple[Change, ...]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    oldest: int = 0
    created: dict[TableId, TableSchema] = field(default_factory=dict)
    identity: str = "memory-1"
    lock: threading.RLock = field(default_factory=threading.RLock)

    _databases: ClassVar[dict[str, MemoryDatabase]] = {}

    def __post_init__(self) -> None:
        self.committed = threading.Condition(self.lock)

    @classmethod
    def of(cls, name: str) -> MemoryDatabase:
        """The database called `name`; made at the first call."""
        return cls._databases.setdefault(name, cls())

    @classmethod
    def forget(cls, name: str) -> None:
        """Drop the database called `name`."""
        cls._databases.pop(name, None)

    def create(self, name: str, schema: TableSchema) -> TableSchema:
        """Make the table `memory.name` with the columns and key of `schema`; outside the log."""
        with self.lock:
            own = TableSchema(TableId(_DATABASE, name), schema.columns, schema.primary_key)
            self.simulator.create(name, own)
            self.created[own.table] = own
            return own

    def execute(self, *steps: Step) -> MemoryOffset:
        """Commit one transaction; returns the offset after it."""
        with self.lock:
            before = MemoryOffset(len(self.log))
            self.log.append(tuple(change for step in steps for change in self.simulator.execute(step, before)))
            self.times.append(time.time_ns() // 1000)
            self.committed.notify_all()
            return MemoryOffset(len(self.log))

    def schema_at(self, table: TableId, offset: MemoryOffset) -> TableSchema:
        """A table's columns at `offset`, by the log."""
        changes = (change for transaction in self.log[: offset.transaction] for change in transaction)
        known = [c.schema for c in changes if isinstance(c, DDLEvent) and c.table == table and c.schema is not None]
        return known[-1] if known else self.created[table]

    def rows(self, name: str) -> list[Row]:
        """A table's rows now."""
        with self.lock:
            return [dict(row) for row in self.simulator.table(name).rows]

    def forget_until(self, offset: MemoryOffset) -> None:
        """Forget the log up to `offset`, as a server that needs the disk space does."""
        with self.lock:
            self.oldest = offset.transaction


class MemorySourceConfig(PluginConfig):
    """Settings of a memory source.

    Attributes:
        database: Names the `MemoryDatabase` to read.
        window_transactions: At most how many transactions one window holds.
        chunks: How many chunks a snapshot has.
    """

    database: str = "default"
    window_transactions: int = 100
    chunks: int = 3


class MemorySource(DeltaSource[MemorySourceConfig]):
    """Reads a `MemoryDatabase`."""

    name: ClassVar[str] = "memory"
    title: ClassVar[str] = "A log in memory, for tests"
    config_type: ClassVar[type[PluginConfig]] = MemorySourceConfig
    offset_type: ClassVar[type[Offset]] = MemoryOffset
    starts_from: ClassVar[frozenset[Literal["offset", "time"]]] = frozenset({"offset", "time"})

    @property
    def database(self) -> MemoryDatabase:
        """The database it reads."""
        return MemoryDatabase.of(self.config.database)

    def identity(self) -> str:
        """The database's identity."""
        return self.database.identity

    def latest_offset(self) -> Offset:
        """After the last transaction."""
        return MemoryOffset(len(self.database.log))

    def find_start(self, start: StartFrom, *, namespace: str, name: str) -> Offset:  # noqa: ARG002 - part of the contract
        """The transaction whose number is written so, or the last one before the time."""
        number, database = start.offset.removeprefix("transaction "), self.database
        if start.time is not None and start.time <= datetime.now(UTC):
            moment = int(start.time.timestamp() * 1_000_000)
            number = str(sum(at < moment for at in database.times))
        if not number.isdecimal() or not database.oldest <= int(number) <= len(database.log):
            raise NeedsUserError(
                f"the log has no position {start}",
                code="RPL-9119",
                hint=f"give one of transaction {database.oldest} to transaction {len(database.log)}",
            )
        return MemoryOffset(int(number))

    def create_table_registry(self) -> TableRegistry:
        """A reader of the tables' names and schemas."""
        return MemoryRegistry(self.database)

    def create_reader(
        self,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
        emitter: EventEmitter,
    ) -> EventReader:
        """A reader of the log."""
        return MemoryReader(self.database, definition, emitter, self.config)

    def create_snapshot_reader(
        self,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
    ) -> SnapshotReader | None:
        """A reader of copies."""
        return MemorySnapshotReader(self.database, self.config.chunks, definition.narrowed)


class MemoryRegistry(TableRegistry):
    """Names and schemas of a database's tables."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._tables = database.simulator.reference.tables

    def list_tables(self) -> list[TableSummary]:
        """Tables by name."""
        found = sorted(self._tables.items())
        return [TableSummary(t, len(there.schema.columns), len(there.rows)) for t, there in found]

    def describe_table(self, table: TableId) -> TableSchema:
        """The schema now."""
        if table not in self._tables:
            raise NeedsUserError(
                "no table of that name was created in memory", code="RPL-9107", hint="create it", table=str(table)
            )
        return self._tables[table].schema


class MemoryReader(EventReader):
    """Emits windows of whole transactions; a transaction with a schema change begins a window."""

    def __init__(
        self,
        database: MemoryDatabase,
        definition: EventReaderDefinition,
        emitter: EventEmitter,
        config: MemorySourceConfig,
    ) -> None:
        self._database = database
        self._definition = definition
        self._emitter = emitter
        self._size = config.window_transactions
        self._position = 0
        self._closed = threading.Event()
        self._names = {table: set(schema.names) for table, schema in definition.tables.items()}

    def initialize(self, offset: Offset | None) -> Offset:
        """Starts after `offset`, or after the last transaction."""
        found = MemoryOffset(len(self._database.log)) if offset is None else cast("MemoryOffset", offset)
        if found.transaction < self._database.oldest:
            raise HistoryLostError(
                "the log after the saved offset is gone",
                code="RPL-9108",
                hint="take a new snapshot",
                position=str(found),
            )
        self._position = found.transaction
        return found

    def begin_at(self, offset: Offset, tables: Sequence[TableSchema]) -> Mapping[TableId, TableSchema]:
        """Starts after `offset` with the columns of then."""
        found = cast("MemoryOffset", self.initialize(offset))
        there = {schema.table: self._database.schema_at(schema.table, found) for schema in tables}
        narrowed = self._definition.narrowed
        return {s.table: there[s.table].select(s.names) if s.table in narrowed else there[s.table] for s in tables}

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Every table is in the log always."""

    def run(self) -> None:
        """Emit until closed."""
        while not self._closed.is_set():
            with self._database.lock:
                if len(self._database.log) == self._position:
                    self._database.committed.wait(0.05)
                pending = self._database.log[self._position : self._position + self._size]
            if pending:
                self._emit_window(_window(pending))
            else:
                self._rest()

    def close(self) -> None:
        """Let `run` end."""
        self._closed.set()

    def _rest(self) -> None:
        """Nothing is committed after what was emitted; there is no offset between two transactions to emit."""

    def _emit_window(self, transactions: Sequence[tuple[Change, ...]]) -> None:
        held: dict[TableId, list[tuple[RowChange, int]]] = {}
        ends: list[int] = []
        ordinal = 0
        for transaction in transactions:
            for change in transaction:
                table = change.schema.table if isinstance(change, RowChange) else change.table
                if table in self._definition.tables:
                    self._take(held, table, change, ordinal)
                ordinal += 1
            ends.append(ordinal)
        for table in held:
            self._flush(held, table)
        first = self._position + 1
        stamps = np.array(self._database.times[self._position : self._position + len(ends)], np.int64)
        self._emitter.emit_commits(Commits(np.array(ends, np.int64), stamps, lambda i: MemoryOffset(first + i)))
        self._position += len(transactions)

    def _take(
        self, held: dict[TableId, list[tuple[RowChange, int]]], table: TableId, change: Change, ordinal: int
    ) -> None:
        if isinstance(change, RowChange):
            held.setdefault(table, []).append((change, ordinal))
            return
        self._flush(held, table)
        event = self._narrowed(change) if table in self._definition.narrowed else change
        if event is not None:
            self._emitter.emit(replace(event, offset=MemoryOffset(self._position), ordinal=ordinal))
            if event.schema is not None:
                self._names[table] = set(event.schema.names)

    def _narrowed(self, event: DDLEvent) -> DDLEvent | None:
        """The event narrowed to the selected columns, whatever they are called; None when nothing of it is left."""
        names, alters = set(self._names[event.table]), []
        for alter in event.alters:
            if alter.previous is None or alter.previous.name not in names:
                continue
            alters.append(alter)
            names.discard(alter.previous.name)
            names |= set() if alter.column is None else {alter.column.name}
        if event.alters and not alters:
            return None
        schema = None if event.schema is None else event.schema.select(names)
        return replace(event, alters=tuple(alters), schema=schema)

    def _flush(self, held: dict[TableId, list[tuple[RowChange, int]]], table: TableId) -> None:
        if changes := held.get(table):
            rows = [_project(change, self._names[table]) for change, _ in changes]
            self._emitter.emit_batch(to_batch(rows, [ordinal for _, ordinal in changes]))
            changes.clear()


def _window(transactions: Sequence[tuple[Change, ...]]) -> Sequence[tuple[Change, ...]]:
    """The first transactions, as far as one window may hold them."""
    with_ddl = (i for i, t in enumerate(transactions) if any(isinstance(c, DDLEvent) for c in t))
    first = next(with_ddl, len(transactions))
    return transactions[: first or 1]


def _project(change: RowChange, names: set[str]) -> RowChange:
    """The change without the columns that were not asked for."""
    if set(change.schema.names) <= names:
        return change
    schema = change.schema.select(names)
    keep = set(schema.names)

    def kept(row: Any) -> dict[str, Any]:
        return {k: v for k, v in row.items() if k in keep}

    before = None if change.before is None else kept(change.before)
    return replace(change, schema=schema, row=kept(change.row), before=before, unchanged=change.unchanged & keep)


class MemorySnapshotReader(SnapshotReader):
    """Copies a table under the database's lock; chunks by a hash of the key, so that they outlast a restart."""

    def __init__(self, database: MemoryDatabase, chunks: int, narrowed: frozenset[TableId]) -> None:
        self._database = database
        self._count = chunks
        self._narrowed = narrowed

    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """A copy at the last committed transaction."""
        with self._database.lock:
            table = self._database.simulator.reference.tables[schema.table]
            selected = table.schema.select(schema.names) if schema.table in self._narrowed else table.schema
            rows = [{name: row[name] for name in selected.names} for row in table.rows]
            position = MemoryOffset(len(self._database.log))
        plan = tuple(chunks) or tuple(
            SnapshotChunk(i, {"rest": i, "of": self._count}, len(rows) // self._count) for i in range(self._count)
        )
        return MemorySnapshot(selected, position, plan, MemoryChunkReader(selected, rows))


class MemorySnapshot(TableSnapshot):
    """A copy of a table's rows."""

    def __init__(
        self, schema: TableSchema, position: Offset, chunks: tuple[SnapshotChunk, ...], read: MemoryChunkReader
    ) -> None:
        self.schema = schema
        self.position = position
        self.chunks = chunks
        self.read = read
        self.resumable = bool(schema.primary_key)

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True)
class MemoryChunkReader:
    """Reads chunks of the copy it carries; picklable with its rows."""

    schema: TableSchema
    rows: list[Row] = field(repr=False)

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows whose keys belong to the chunk."""
        rest, count = chunk.bounds["rest"], chunk.bounds["of"]
        found = [row for row in self.rows if _hash(self.schema, row) % count == rest]
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=self.schema.arrow)


def _hash(schema: TableSchema, row: Row) -> int:
    return zlib.crc32(repr(comparable_key(schema, row)).encode("utf-8", "surrogatepass"))
