"""A distributed log in a folder that any process can read, for tests of the runtime and of targets that apply slices.

Each partition is a file of records, as a topic's partition in Kafka: a change under the schema of its moment, nothing
else. Keys are spread by a hash; a row that moves to another key is a delete and an insert, as Debezium writes it.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.discovery.table_registry import FixedTables, TableRegistry
from replicator_sdk.distributed.partitioned_log import (
    DistributedLog,
    LogItem,
    LogPartition,
    LogSlice,
    ReadUntil,
    SchemaSeen,
    SchemaStep,
)
from replicator_sdk.errors import BugError, DataError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DMLOperation
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import DeltaSource, EventEmitter, EventReader, EventReaderDefinition
from replicator_sdk.testing.histories.batches import to_batch
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.values import comparable_key

_RECORD_BYTES = 100
_BATCH_RECORDS = 50


@dataclass(frozen=True, slots=True)
class PartitionedOffset(Offset):
    """How many records of each partition are read."""

    read: tuple[int, ...]

    def fields(self) -> Mapping[str, bytes]:
        """One field a partition."""
        return {str(i): n.to_bytes(8, "big") for i, n in enumerate(self.read)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`."""
        return cls(tuple(int.from_bytes(fields[str(i)], "big") for i in range(len(fields))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionedOffset) and self.read == other.read

    def __hash__(self) -> int:
        return hash(self.read)

    def __lt__(self, other: Any) -> bool:
        """Whether it comes before.

        Raises:
            BugError: When neither comes before the other, which no two offsets of one replicator may do.
        """
        pairs = list(zip(self.read, other.read, strict=True))
        if any(a < b for a, b in pairs) and any(a > b for a, b in pairs):
            raise BugError(f"{self} and {other} are not ordered", code="RPL-9111")
        return any(a < b for a, b in pairs)

    def __str__(self) -> str:
        return ",".join(map(str, self.read))


@dataclass(frozen=True, slots=True)
class Record:
    """A change, and when it was recorded (microseconds since 1970 UTC); without a change only the time, like a heartbeat."""

    change: RowChange | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The log; one process writes it, any may read it."""

    path: Path
    partitions: int = 4

    def append(self, changes: Iterable[RowChange], timestamp: int = 0, partition: int | None = None) -> None:
        """Record `changes` in order, each in the partition of its key, or all of them in `partition`.

        A change of an UPDATE's key must carry the whole row.
        """
        for change in changes:
            for part in _without_moves(change):
                self._write(self.partition_of(part) if partition is None else partition, Record(part, timestamp))

    def heartbeat(self, timestamp: int) -> None:
        """Record the time, and no change, in every partition."""
        for number in range(self.partitions):
            self._write(number, Record(None, timestamp))

    def spoil(self, partition: int, table: TableId) -> None:
        """Appends a record of `table` that no reader can decode."""
        self._write(partition, table)

    def records(self, partition: int) -> list[Any]:
        """All of one partition."""
        file = self.path / f"partition-{partition}"
        found: list[Any] = []
        if file.exists():
            with file.open("rb") as opened:
                while opened.peek(1):
                    found.append(pickle.load(opened))  # noqa: S301 - written by the test that reads it
        return found

    def end(self) -> PartitionedOffset:
        """After all that is recorded."""
        return PartitionedOffset(tuple(len(self.records(n)) for n in range(self.partitions)))

    def partition_of(self, change: RowChange) -> int:
        """Where a change belongs; all of a table without a key in one place."""
        image = change.before if change.operation is DMLOperation.DELETE and change.before else change.row
        key = comparable_key(change.schema, image) if change.schema.primary_key else ()
        return zlib.crc32(repr((str(change.schema.table), key)).encode()) % self.partitions

    def _write(self, partition: int, record: Any) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / f"partition-{partition}").open("ab") as opened:
            pickle.dump(record, opened)


def _without_moves(change: RowChange) -> list[RowChange]:
    schema = change.schema
    if change.operation is not DMLOperation.UPDATE or not schema.primary_key or change.before is None:
        return [change]
    if comparable_key(schema, change.before) == comparable_key(schema, change.row):
        return [change]
    gone = RowChange(schema, DMLOperation.DELETE, {}, change.before, before_is_full=change.before_is_full)
    return [gone, RowChange(schema, DMLOperation.INSERT, change.row)]


@dataclass(frozen=True, slots=True)
class FolderReader:
    """Reads partitions of a `LogFolder`."""

    folder: LogFolder

    def __call__(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
        """Changes under the schemas given; a column the records do not have is NULL."""
        number, begin, end = partition.bounds
        records = self.folder.records(number)[begin:end]
        for first, record in enumerate(records, begin):
            if not isinstance(record, Record) and record in tables:
                raise DataError(
                    "a record cannot be read",
                    code="RPL-9112",
                    table=str(record),
                    position=f"{number}:{first}",
                    hint="made so by the test",
                )
        records = [record if isinstance(record, Record) else Record(None, -1) for record in records]
        numbered = [(i, r) for i, r in enumerate(records, begin) if r.change is not None]
        refused: set[TableId] = set()
        for schema, run in groupby(numbered, lambda pair: pair[1].change.schema):
            known = tables.get(schema.table)
            if known is None or widened(known, schema) is not None or schema.table in refused:
                refused.add(schema.table)
                yield SchemaSeen(schema)
                continue
            taken = list(run)
            for start in range(0, len(taken), _BATCH_RECORDS):
                yield _batch(known, taken[start : start + _BATCH_RECORDS])
        if records:
            yield ReadUntil(max(record.timestamp for record in records))


def _batch(known: TableSchema, numbered: Sequence[tuple[int, Record]]) -> Any:
    changes = [replace(record.change, schema=known) for _, record in numbered if record.change is not None]
    batch = to_batch(changes, range(len(changes)), 0)
    return replace(
        batch,
        sequence_numbers=np.array([number + 1 for number, _ in numbered], np.int64),
        timestamps=np.array([record.timestamp for _, record in numbered], np.int64),
    )


def widened(known: TableSchema | None, seen: TableSchema) -> SchemaStep | None:
    """`DistributedLog.reconcile`: columns are added, nothing else changes."""
    if known is None:
        return SchemaStep(seen)
    if any(c.name in known and known[c.name].type != c.type for c in seen.columns):
        raise SchemaDriftError(
            "a column changed its type", code="RPL-9113", table=str(seen.table), hint="made so by the test"
        )
    added = tuple(c for c in seen.columns if c.name not in known)
    if not added:
        return None
    schema = TableSchema(known.table, (*known.columns, *added), known.primary_key)
    return SchemaStep(schema, tuple(Alter(AlterKind.ADD_COLUMN, c) for c in added))


class FolderLog(DistributedLog):
    """Slices of a `LogFolder`; a record counts a hundred bytes."""

    reads_tables_alone = True

    def __init__(self, folder: LogFolder, *, repeats: bool) -> None:
        self._folder = folder
        self.read = FolderReader(folder)
        self.repeats = repeats
        self.committed_offsets: list[Offset] = []

    def initialize(self, offset: Offset | None) -> Offset:
        """From the beginning, when nothing says otherwise."""
        return PartitionedOffset((0,) * self._folder.partitions) if offset is None else offset

    def plan(self, start: Offset, limit_bytes: int, end: Offset | None = None) -> LogSlice | None:
        """The same number of records of each partition, as far as there are."""
        begins = cast("PartitionedOffset", start).read
        there = self._folder.end().read
        fence = there if end is None else cast("PartitionedOffset", end).read
        most = max(1, limit_bytes // _RECORD_BYTES // self._folder.partitions)
        ends = tuple(max(b, min(b + most, t, f)) for b, t, f in zip(begins, there, fence, strict=True))
        if ends == begins:
            return None
        parts = [
            (f"partition {n} {b}..{e}", (n, b, e), e - b)
            for n, (b, e) in enumerate(zip(begins, ends, strict=True))
            if b < e
        ]
        partitions = tuple(
            LogPartition(i, name, bounds, rows, rows * _RECORD_BYTES) for i, (name, bounds, rows) in enumerate(parts)
        )
        complete = len(partitions) == self._folder.partitions
        return LogSlice(start, PartitionedOffset(ends), partitions, sum(begins) + 1, sum(ends), complete)

    def reconcile(self, known: TableSchema | None, seen: TableSchema) -> SchemaStep | None:
        """Columns are added."""
        return widened(known, seen)

    def committed(self, offset: Offset) -> None:
        """Keeps the offset."""
        self.committed_offsets.append(offset)

    def close(self) -> None:
        """Nothing to release."""


class PartitionedConfig(PluginConfig):
    """Settings of a partitioned source.

    Attributes:
        folder: The folder of its log.
        partitions: How many it has.
        repeats: `DistributedLog.repeats`.
    """

    folder: str
    partitions: int = 4
    repeats: bool = True


class PartitionedSource(DeltaSource[PartitionedConfig]):
    """Reads a `LogFolder`; its tables are those of its records."""

    name: ClassVar[str] = "partitioned"
    title: ClassVar[str] = "A log in files, for tests"
    config_type: ClassVar[type[PluginConfig]] = PartitionedConfig
    offset_type: ClassVar[type[Offset]] = PartitionedOffset

    @property
    def settings(self) -> PartitionedConfig:
        """Its settings."""
        return self.config

    @property
    def folder(self) -> LogFolder:
        """Its log."""
        return LogFolder(Path(self.settings.folder), self.settings.partitions)

    def identity(self) -> str:
        """The folder."""
        return self.settings.folder

    def latest_offset(self) -> Offset:
        """After all that is recorded."""
        return self.folder.end()

    def create_table_registry(self) -> TableRegistry:
        """The tables, each with the schema of all its records so far."""
        schemas: dict[TableId, TableSchema] = {}
        for partition in range(self.folder.partitions):
            for record in self.folder.records(partition):
                if isinstance(record, Record) and record.change is not None:
                    step = widened(schemas.get(record.change.schema.table), record.change.schema)
                    if step is not None:
                        schemas[step.schema.table] = step.schema
        return FixedTables(*schemas.values())

    def create_reader(
        self,
        definition: EventReaderDefinition,  # noqa: ARG002 - part of the contract
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
        emitter: EventEmitter,  # noqa: ARG002 - part of the contract
    ) -> EventReader:
        """There is none."""
        raise BugError("a partitioned source is read in slices only", code="RPL-9114")

    def create_distributed_log(
        self,
        definition: EventReaderDefinition,  # noqa: ARG002 - part of the contract
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
    ) -> DistributedLog | None:
        """The log."""
        return FolderLog(self.folder, repeats=self.settings.repeats)
