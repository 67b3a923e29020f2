"""Applying a slice of a distributed log: what a task reads, what the target applies, and the outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from replicator_sdk.batch import BatchIdentity, ChangeBatch, TableChanges
from replicator_sdk.distributed.counted import Counted
from replicator_sdk.distributed.partitioned_log import LogPartition, LogPartitionReader, LogSlice, ReadUntil, SchemaSeen
from replicator_sdk.event import DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import BatchConsumer, TableProgress


@dataclass(frozen=True, slots=True)
class TableTally:
    """What a table's changes in a slice, or a part of it, count.

    Attributes:
        inserts: INSERTs.
        updates: UPDATEs.
        deletes: DELETEs.
        nbytes: Bytes of their arrays.
        partitions: In how many partitions they are.
        newest: Highest commit time, microseconds since 1970 UTC; -1 unknown.
        is_unordered: As `ChangeBatch.is_unordered`, of any of them.
    """

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    nbytes: int = 0
    partitions: int = 0
    newest: int = -1
    is_unordered: bool = False

    @property
    def rows(self) -> int:
        """All changes."""
        return self.inserts + self.updates + self.deletes

    @property
    def inserts_only(self) -> bool:
        """Whether every change is an INSERT."""
        return self.updates == 0 and self.deletes == 0

    def __add__(self, other: TableTally) -> TableTally:
        return TableTally(
            self.inserts + other.inserts,
            self.updates + other.updates,
            self.deletes + other.deletes,
            self.nbytes + other.nbytes,
            self.partitions + other.partitions,
            max(self.newest, other.newest),
            self.is_unordered or other.is_unordered,
        )


@dataclass(slots=True)
class PartitionsRead:
    """What one task read: the changes of each table, in order within each partition.

    Attributes:
        batches: By table.
        partitions: By table, for each of its batches the index of the partition it is from.
        tallies: By table.
        seen: Schemas beyond those that were given, each once.
        read_until: By partition index, the latest time read in it; only of partitions that report it.
    """

    batches: dict[TableId, list[ChangeBatch]] = field(default_factory=dict)
    partitions: dict[TableId, list[int]] = field(default_factory=dict)
    tallies: dict[TableId, TableTally] = field(default_factory=dict)
    seen: list[TableSchema] = field(default_factory=list)
    read_until: dict[int, int] = field(default_factory=dict)

    def changes(self, table: TableId, identity: BatchIdentity, *, overlap: bool) -> TableChanges:
        """One table's changes as a target applies them."""
        tally = self.tallies[table]
        return TableChanges(
            self.batches[table][0].schema,
            identity,
            self.batches[table],
            rows=tally.rows,
            nbytes=tally.nbytes,
            overlap=overlap,
            inserts_only=tally.inserts_only,
            source_timestamp=tally.newest,
            unordered=tally.is_unordered,
        )


def read_partitions(
    read: LogPartitionReader, partitions: Iterable[LogPartition], tables: Mapping[TableId, TableSchema]
) -> PartitionsRead:
    """All changes of some partitions, held in memory; what a task of an executor begins with."""
    found = PartitionsRead()
    for partition in partitions:
        here: dict[TableId, TableTally] = {}
        for item in read(partition, tables):
            if isinstance(item, SchemaSeen):
                if item.schema not in found.seen:
                    found.seen.append(item.schema)
            elif isinstance(item, ReadUntil):
                found.read_until[partition.index] = max(item.timestamp, found.read_until.get(partition.index, -1))
            elif len(item):
                found.batches.setdefault(item.table, []).append(item)
                found.partitions.setdefault(item.table, []).append(partition.index)
                here[item.table] = here.get(item.table, TableTally(partitions=1)) + _tally(item)
        for table, tally in here.items():
            found.tallies[table] = found.tallies.get(table, TableTally()) + tally
    return found


def _tally(batch: ChangeBatch) -> TableTally:
    counts = np.bincount(batch.op.to_numpy(zero_copy_only=False), minlength=int(DMLOperation.DELETE) + 1)
    newest = -1 if batch.timestamps is None else int(batch.timestamps.max())
    inserts, updates, deletes = (
        int(counts[op]) for op in (DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE)
    )
    return TableTally(inserts, updates, deletes, batch.nbytes, 0, newest, batch.is_unordered)


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """A slice ready to be applied.

    Attributes:
        slice: Which stretch of the log.
        read: Reads its partitions, in any process.
        tables: The tables that take its changes, each with its schema at source and target.
        generation: For the batch identity.
        epoch: For the batch identity.
        overlap: As `TableChanges.overlap`, for all tables.
        lacking_rows: Tables of which inserts or updates are left out: a removal whose row is not there waits for none, as
            it may be of a row that never arrives.
        follows: By table, as `TableChanges.follows`.
        counted: By table, what is counted of it before the slice.
    """

    slice: LogSlice
    read: LogPartitionReader
    tables: Mapping[TableId, TableSchema]
    generation: int
    epoch: int
    overlap: bool = True
    lacking_rows: frozenset[TableId] = frozenset()
    follows: Mapping[TableId, Position] = field(default_factory=dict)
    counted: Mapping[TableId, Counted] = field(default_factory=dict)

    @property
    def identity(self) -> BatchIdentity:
        """Identity and position of every table's commit."""
        here = self.slice
        return BatchIdentity(self.generation, self.epoch, here.first_sequence, here.last_sequence, Position(here.end))

    def progress(self, table: TableId, tally: TableTally) -> TableProgress:
        """What the commit of the table's changes, which `tally` counts, says of the table."""
        before = self.counted.get(table)
        counted = None if before is None else before.plus(tally.inserts, tally.updates, tally.deletes)
        return replace(TableProgress.of(self.identity), counted=counted)


@dataclass(frozen=True, slots=True)
class SliceOutcome:
    """The outcome of a slice.

    Attributes:
        applied: The tables whose changes are durable, also those that were at its end before.
        failures: The tables that failed; nothing of the slice is in them unless the answer to a commit was lost.
        seen: Schemas the tables do not have. A table of `SliceChanges.tables` among them was not touched.
        valid_through: Every change the source committed up to then is in the slice or before it: the lowest over all
            partitions of the highest time read; microseconds since 1970 UTC, -1 when some partition took no part.
    """

    applied: Mapping[TableId, TableTally] = field(default_factory=dict)
    failures: Mapping[TableId, Exception] = field(default_factory=dict)
    seen: tuple[TableSchema, ...] = ()
    valid_through: int = -1


def share(partitions: Sequence[LogPartition], tasks: int) -> list[tuple[LogPartition, ...]]:
    """The partitions in at most `tasks` groups of about the same size.

    One task for several partitions opens what it needs of the target once; one for each would do so once each.
    """
    shares: list[list[LogPartition]] = [[] for _ in range(min(tasks, len(partitions)))]
    sizes = [0] * len(shares)
    for partition in sorted(partitions, key=lambda p: -p.estimated_bytes):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(partition)
        sizes[smallest] += max(1, partition.estimated_bytes)
    return [tuple(one) for one in shares]


def valid_through(log_slice: LogSlice, read_until: Mapping[int, int]) -> int:
    """`SliceOutcome.valid_through` of a slice whose partitions were read up to these times."""
    if not log_slice.is_complete or len(read_until) < len(log_slice.partitions):
        return -1
    return min(read_until.values(), default=-1)


class RangeConsumer(BatchConsumer):
    """Optional capability of a target: applies a slice of a distributed log where it is read.

    `apply_slice` is called by one thread, never beside `apply_batch` or `apply_ddl`.

    Attributes:
        slice_interval: Shortest time between the beginnings of two slices with changes, in seconds, for targets on which
            each commit costs. The caller waits before it plans a slice, so that the slice has what arrived meanwhile.
    """

    slice_interval: float = 0.0

    @abstractmethod
    def apply_slice(self, changes: SliceChanges) -> SliceOutcome:
        """Apply the slice's changes to all its tables: each table's in one atomic commit that also stores
        `SliceChanges.progress`. Durable on return.

        A table that is at the slice's end or later already is skipped; one without changes in it may be left as it
        is. A table of which a `SchemaSeen` came is left untouched. A table that fails does not stop the others.

        Raises:
            FencedError: When any table was written by a higher epoch.
            ReplicatorError: When a partition could not be read; nothing is applied then.
        """
