"""Changes in columns: what the reader emits and the target merges.

No Python code runs per row on this path. A reader emits `ChangeBatch`es and, at transaction boundaries, `Commits`; the
runtime numbers, filters and batches them, and passes each table's changes to the target as one `TableChanges`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.errors import BugError
from replicator_sdk.offset import Offset, Position
from replicator_sdk.schema import TableId, TableSchema

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Values of one column that its standard type, or the target, does not hold. Immutable.

    Attributes:
        mask: True for each row whose value is refused; no NULL in it.
        code: The code of the error that would stop the table instead.
        what: That error's message; never a value.
    """

    mask: pa.BooleanArray
    code: str
    what: str

    def __getitem__(self, cut: slice) -> Refusal:
        """The same of some rows."""
        return Refusal(self.mask[cut], self.code, self.what)

    @property
    def indexes(self) -> Int64s:
        """Which rows, ascending."""
        return np.flatnonzero(self.mask.to_numpy(zero_copy_only=False)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes of one table under one schema version, in source order. Immutable; may be shared between threads.

    All arrays have one length. Rows are the table's columns (`schema.struct`), exact in their standard Arrow types.

    Attributes:
        schema: Table and schema version; `row` and `before` have its columns.
        op: int8 codes of `DMLOperation` INSERT, UPDATE, DELETE.
        row: Struct of the table's columns: the row after an INSERT or UPDATE; for a DELETE its content is undefined.
        before: Struct of the table's columns, null where the source sent nothing; the key (other columns NULL) or the
            whole row before an UPDATE or DELETE. For an UPDATE null means that the key did not change. For a DELETE it
            is never null. For a table without a key it is the whole row, never null, for both.
        ordinals: int64, strictly ascending: rank of each change among all events, of all tables, since the commits
            emitted last (see `EventEmitter`).
        unchanged: Column name → boolean array, true where an UPDATE did not send the column; only columns with at
            least one true. The value in `row` is then NULL and means nothing.
        before_is_full: Whether `before` holds whole rows (not only keys) wherever it is not null.
        is_snapshot: Whether the rows were read by a snapshot the reader does itself.
        is_unordered: Of a table without a key: whether a row's removal may come before its insert, also in an earlier batch,
            because the log has several partitions without a common order. Of a table with a key: whether a key has changes in
            several of them, so that which comes last is unknown; the runtime stops the table.
        sequence_numbers: int64; None until the runtime's sequencer numbered them.
        timestamps: int64 microseconds since 1970 UTC, the commit time at the source; -1 unknown; None until the
            runtime has seen the commit.
        refused: Column name → the values of `row` that are refused; only columns with at least one, never of the key. They are
            NULL in `row`. A reader gives it only where `EventReaderDefinition.marks_refused` asks for it.
    """

    schema: TableSchema
    op: pa.Int8Array
    row: pa.StructArray
    before: pa.StructArray | None
    ordinals: Int64s
    unchanged: Mapping[str, pa.BooleanArray] = field(default_factory=dict)
    before_is_full: bool = False
    is_snapshot: bool = False
    sequence_numbers: Int64s | None = None
    timestamps: Int64s | None = None
    is_unordered: bool = False
    refused: Mapping[str, Refusal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = [
            self.row,
            self.before,
            self.ordinals,
            self.sequence_numbers,
            self.timestamps,
            *self.unchanged.values(),
            *(refusal.mask for refusal in self.refused.values()),
        ]
        if any(a is not None and len(a) != len(self.op) for a in arrays):
            raise BugError("a change batch has arrays of unequal length", code="RPL-9001", table=str(self.table))
        if self.row.type != self.schema.struct:
            raise BugError(
                f"a change batch's rows are {self.row.type}, its schema says {self.schema.struct}",
                code="RPL-9002",
                table=str(self.table),
            )

    def __len__(self) -> int:
        return len(self.op)

    @property
    def table(self) -> TableId:
        """The table the changes belong to."""
        return self.schema.table

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, as Arrow counts them (slices count their share)."""
        before = 0 if self.before is None else self.before.nbytes
        return int(self.row.nbytes + before + self.op.nbytes + self.ordinals.nbytes)

    def slice(self, start: int, stop: int) -> ChangeBatch:
        """The changes from index `start` up to `stop`, without copying."""
        cut = slice(start, stop)
        return ChangeBatch(
            self.schema,
            self.op[cut],
            self.row[cut],
            None if self.before is None else self.before[cut],
            self.ordinals[cut],
            {name: mask[cut] for name, mask in self.unchanged.items()},
            self.before_is_full,
            self.is_snapshot,
            None if self.sequence_numbers is None else self.sequence_numbers[cut],
            None if self.timestamps is None else self.timestamps[cut],
            self.is_unordered,
            {name: refusal[cut] for name, refusal in self.refused.items()},
        )


@dataclass(frozen=True, slots=True)
class Commits:
    """One or more transaction ends, in source order.

    Attributes:
        ordinals: int64, ascending: for each commit, how many events since the commits emitted before belong to it and
            those ahead of it (an exclusive end rank; equal to the one before it for an empty transaction).
        timestamps: int64 microseconds since 1970 UTC, when the source committed; -1 where it does not report it.
        offset_at: The offset after the i-th commit; called for few i only. Offsets ascend strictly with i.
        more: Whether events may follow that were committed at the source before these, as changes of structure that are not in
            the log: a run that ends where the log ended goes on until commits without it.
        valid_through: Every change that the source committed up to then is in the log up to the last of these commits; microseconds
            since 1970 UTC, -1 unknown. None where the log has changes in the order of their commits: then the newest timestamp says it.
    """

    ordinals: Int64s
    timestamps: Int64s
    offset_at: Callable[[int], Offset]
    more: bool = False
    valid_through: int | None = None

    def __len__(self) -> int:
        return len(self.ordinals)

    @property
    def last(self) -> Offset:
        """The offset after all of them."""
        return self.offset_at(len(self) - 1)

    @property
    def events(self) -> int:
        """How many events all of them hold."""
        return int(self.ordinals[-1])

    def count_until(self, offset: Offset) -> int:
        """How many of the commits are at `offset` or before it, by binary search."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if not offset < self.offset_at(middle):
                low = middle + 1
            else:
                high = middle
        return low


def single_commit(events: int, offset: Offset, timestamp: int = -1, *, valid_through: int | None = None) -> Commits:
    """The commit of one transaction of `events` events; `valid_through` as in `Commits`."""
    ordinals, timestamps = np.array([events], np.int64), np.array([timestamp], np.int64)
    return Commits(ordinals, timestamps, lambda _: offset, valid_through=valid_through)


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """Which batch this is; a pure function of the log and the epoch, never of a clock, so that a replay
    makes the same batch.

    Attributes:
        generation: The replicator's generation.
        epoch: The writer's lease epoch; a target refuses a batch with a lower epoch than it has stored.
        first_sequence: Lowest sequence number in it (over this table).
        last_sequence: Highest sequence number in it.
        position: The table's position once the batch is applied.
    """

    generation: int
    epoch: int
    first_sequence: int
    last_sequence: int
    position: Position

    def __str__(self) -> str:
        return f"{self.generation}-{self.epoch}-{self.first_sequence}-{self.last_sequence}"


class TableChanges:
    """All changes of one table between two flushes, in order, under one schema version.

    Holds whole transactions, except around a schema change inside a transaction. May be larger than memory: then the
    batches are in a spill file and `batches()` reads them again, one after another, at each call. Valid until the
    `apply_batch` that received it has returned; not to be kept.

    Attributes:
        schema: Table and schema version.
        identity: Identity and position to be stored in the same commit.
        rows: How many changes.
        nbytes: How many bytes, about.
        overlap: Whether the table may already hold the effect of some of these changes (its snapshot was read over a
            range of positions, or its source's reader takes snapshots itself): inserts must then be upserts, deletes
            of missing rows and updates of missing rows that carry all columns are no error.
        drops_lost_updates: Whether an update of a missing row that does not carry all columns is dropped: a later change
            deletes that row, since the runtime read its snapshot after that, or a filter keeps such rows out. Else such
            an update is a `DataError`, also in an overlap: its values are nowhere.
        inserts_only: Whether every change is an INSERT.
        source_timestamp: Highest commit time in it, microseconds since 1970 UTC; -1 unknown.
        unordered: Whether a row's removal may come before its insert (see `ChangeBatch.is_unordered`). Only consumers
            with `BatchConsumer.keeps_unmatched` get such changes, unless they are inserts only.
        follows: The table was at this position or later when the runtime knew last; None when it does not say. A table that
            is not there, or before it, was deleted or put back by another program: changes alone would not make it whole
            (`TableOwnership.check_follows`).
        valid_through: Every change that the source committed up to then is in the table once these are applied, by the source's clock;
            microseconds since 1970 UTC, -1 unknown.
    """

    def __init__(
        self,
        schema: TableSchema,
        identity: BatchIdentity,
        batches: Callable[[], Iterator[ChangeBatch]] | Sequence[ChangeBatch],
        *,
        rows: int,
        nbytes: int,
        overlap: bool = False,
        drops_lost_updates: bool = False,
        inserts_only: bool = False,
        source_timestamp: int = -1,
        unordered: bool = False,
        follows: Position | None = None,
        valid_through: int = -1,
    ) -> None:
        self.schema = schema
        self.identity = identity
        self.rows = rows
        self.nbytes = nbytes
        self.overlap = overlap
        self.drops_lost_updates = drops_lost_updates
        self.inserts_only = inserts_only
        self.source_timestamp = source_timestamp
        self.unordered = unordered
        self.follows = follows
        self.valid_through = valid_through
        self._batches = batches

    @property
    def table(self) -> TableId:
        """The table the changes belong to."""
        return self.schema.table

    def batches(self) -> Iterator[ChangeBatch]:
        """The batches in order; every call starts with the first."""
        return self._batches() if callable(self._batches) else iter(self._batches)

    def with_batches(
        self, batches: Callable[[], Iterator[ChangeBatch]], *, rows: int, inserts_only: bool
    ) -> TableChanges:
        """The same with other batches, which hold `rows` changes."""
        changes = copy.copy(self)
        changes._batches = batches  # noqa: SLF001 - of its own class
        changes.rows, changes.inserts_only = rows, inserts_only
        return changes


def combined(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array of a column's chunks; a single one as it is, which `combine_chunks` would copy."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
