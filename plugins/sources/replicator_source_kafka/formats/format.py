"""The interface of formats: they decode records into changes by table and unreadable records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s
from replicator_sdk.errors import DataError
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_kafka.records import Records


def no_indexes() -> Int64s:
    """An empty array of indexes."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that could not be read.

    Attributes:
        index: The index of the record.
        code: Stable code `RPL-39nn`.
        reason: What is wrong with it, as the end of a sentence, without any of its values.
        table: Its table; None where it does not say.
    """

    index: int
    code: str
    reason: str
    table: TableId | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Changes of one table, from records with one schema. All arrays have the same length, except `truncates`.

    Attributes:
        schema: The table's schema in these records: columns with standard types, and the names in the records' key.
        index: The index of the record of each change, ascending.
        op: int8 codes of `DMLOperation` INSERT, UPDATE, DELETE. An insert may be of a row that exists already.
        row: Struct of the table's columns; for a DELETE its content is undefined.
        before: As in `ChangeBatch`; columns other than the key may be NULL. None when no change has one.
        before_is_full: Whether `before` holds whole rows wherever it is not null.
        timestamps: Microseconds since 1970 UTC, when the source committed; -1 unknown.
        unchanged: Column name → boolean array, true where the record did not carry the column's value (Debezium's
            unavailable value); only columns with at least one true. Such a change is an UPDATE.
        transaction: The source's transaction ids, if the records contain them.
        truncates: The indexes of records that truncated the table, ascending; they are not in `index`.
        is_of_keys: Whether the changes are deletes by key, so that `schema` has no other columns.
        error: Why the rows could not be made; `row` then has only NULLs, and nothing may be emitted of the part.
    """

    schema: TableSchema
    index: Int64s
    op: pa.Int8Array
    row: pa.StructArray
    before: pa.StructArray | None
    before_is_full: bool
    timestamps: Int64s
    unchanged: Mapping[str, pa.BooleanArray] = field(default_factory=dict)
    transaction: pa.StringArray | None = None
    truncates: Int64s = field(default_factory=no_indexes)
    is_of_keys: bool = False
    error: DataError | None = None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def table(self) -> TableId:
        """The table the changes belong to."""
        return self.schema.table

    def take(self, positions: Int64s) -> Part:
        """Only the changes at `positions`."""
        taken = pa.array(positions)
        unchanged = {name: mask.take(taken) for name, mask in self.unchanged.items()}
        return Part(
            self.schema,
            self.index[positions],
            self.op.take(taken),
            self.row.take(taken),
            None if self.before is None else self.before.take(taken),
            self.before_is_full,
            self.timestamps[positions],
            {name: mask for name, mask in unchanged.items() if pc.any(mask).as_py()},
            None if self.transaction is None else self.transaction.take(taken),
            self.truncates,
        )


def failed_part(
    schema: TableSchema,
    index: Int64s,
    op: pa.Int8Array,
    error: DataError,
    *,
    transaction: pa.StringArray | None = None,
    truncates: Int64s | None = None,
) -> Part:
    """A part whose rows could not be made, which still says which records are changes of the table."""
    return Part(
        schema=schema,
        index=index,
        op=op,
        row=pa.nulls(len(index), schema.struct),
        before=None,
        before_is_full=False,
        timestamps=np.full(len(index), -1, np.int64),
        transaction=transaction,
        truncates=no_indexes() if truncates is None else truncates,
        error=error,
    )


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded block of records.

    Records that are in none of these say nothing about rows: a tombstone directly after the delete of its row, a heartbeat,
    a schema change, a logical message, the begin or end of a transaction.

    Attributes:
        parts: In any order between tables; those of one table ascend by index and may interleave with each other only
            where the records of different schemas do.
        poison: The records that could not be read, ascending.
        tombstones: The other records with a key and without a value, ascending, if they do not name their table.
            Compaction keeps a tombstone and removes the delete before it. `Format.deletes` reads them.
    """

    parts: Sequence[Part]
    poison: Sequence[Poison] = ()
    tombstones: Int64s = field(default_factory=no_indexes, compare=False)


class Format(ABC):
    """Decodes records. Picklable (runs on Spark's executors too); used by one thread at a time.

    The result for a record depends on the record and the settings, never on earlier records; a format caches only what
    makes the next block faster.
    """

    @abstractmethod
    def decode(self, records: Records) -> Decoded:
        """The changes in `records`, all of one partition.

        A value outside its standard type, where the policy is to fail, is the error of a part: it concerns its table only.

        Raises:
            RetryableError: When the schema registry cannot be reached now.
            NeedsUserError: When the registry refuses, or an optional library is missing.
        """

    def deletes(self, records: Records, index: Int64s, known: TableSchema, poison: list[Poison]) -> list[Part]:
        """The deletes of some of `Decoded.tombstones`; those whose keys do not fit `known` are added to `poison`.

        Args:
            records: As for `decode`.
            index: The indexes of the tombstones.
            known: Their table. The parts have its key's columns only.
            poison: Receives the records that cannot be read.
        """
        raise NotImplementedError(f"{type(self).__name__} reads tombstones as it reads rows")
