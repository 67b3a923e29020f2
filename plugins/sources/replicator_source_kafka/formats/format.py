"""What every format promises: records in, changes by table and unreadable records out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_kafka.records import Records


def no_indexes() -> Int64s:
    """Of no record at all."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that could not be read.

    Attributes:
        index: Which of the records.
        code: Stable code `RPL-39nn`.
        reason: What is wrong with it, in one sentence, without any of its values.
    """

    index: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """Changes of one table out of records with one schema. All arrays have one length, except `truncates`.

    Attributes:
        schema: The table as the records tell it: columns with standard types, and the names in the records' key.
        index: Which of the records each change came from, ascending.
        op: int8 codes of `DMLOperation` INSERT, UPDATE, DELETE. An insert may be of a row that is there already.
        row: Struct of the table's columns; for a DELETE its content is undefined.
        before: As in `ChangeBatch`; other columns than the key may be NULL. None when no change has one.
        before_is_full: Whether `before` holds whole rows wherever it is not null.
        timestamps: Microseconds since 1970 UTC, when the source committed; -1 unknown.
        unchanged: Column name → boolean array, true where the record did not carry the column's value (Debezium's
            unavailable value); only columns with at least one true. Such a change is an UPDATE.
        transaction: The source's transaction ids where the records tell them.
        truncates: Which of the records emptied the table, ascending; they are no changes.
        is_of_keys: Whether the changes are deletes by key alone, which say nothing about the table's other columns.
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

    def __len__(self) -> int:
        return len(self.index)

    @property
    def table(self) -> TableId:
        """The table the changes belong to."""
        return self.schema.table


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a block of records says. A record that is in none of these says nothing about rows (a tombstone right behind
    its own row's delete, a heartbeat, a schema change, a logical message, a transaction's border).

    Attributes:
        parts: In any order between tables; those of one table ascend by index and may interleave with each other only
            where the records of different schemas do.
        poison: The records that could not be read, ascending.
        tombstones: The other records with a key and without a value, ascending, where those do not say which table they
            are of. Compaction keeps a tombstone and takes the delete before it. `Format.deletes` reads them.
    """

    parts: Sequence[Part]
    poison: Sequence[Poison] = ()
    tombstones: Int64s = field(default_factory=no_indexes, compare=False)


class Format(ABC):
    """Decodes records. Picklable (runs on Spark's executors too); used by one thread at a time.

    What a record says depends on the record and the settings, never on the records before it; a format keeps only what
    makes the next block faster.
    """

    @abstractmethod
    def decode(self, records: Records) -> Decoded:
        """The changes in `records`, all of one partition.

        Raises:
            DataError: When a value is outside its standard type and the policy is to fail.
            RetryableError: When the schema registry cannot be reached now.
            NeedsUserError: When the registry refuses, or an optional library is missing.
        """

    def deletes(self, records: Records, index: Int64s, known: TableSchema, poison: list[Poison]) -> list[Part]:
        """The deletes that some of `Decoded.tombstones` mean; those whose keys are not of `known` are added to `poison`.

        Args:
            records: As for `decode`.
            index: Which of them.
            known: The table that they are of. The parts have its key's columns only.
            poison: Takes what cannot be read.
        """
        raise NotImplementedError(f"{type(self).__name__} reads tombstones as it reads rows")
