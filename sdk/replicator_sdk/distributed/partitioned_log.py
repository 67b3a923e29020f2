"""Optional capability of a source: a log of many partitions, read in parallel by Spark's executors.

The driver plans a *slice*: how far the log is to be read next, as a list of small picklable partitions. A picklable
function turns a partition into changes, in any process; rows never pass through the driver. One slice is applied after
the other, each table's part in one commit whose position is the slice's end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.event import Alter
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class LogPartition:
    """A range of one partition of the log; picklable.

    Attributes:
        index: Rank in the slice, from 0.
        name: What its people call it, e.g. `shop.customers[3] 100..250`; for messages.
        bounds: What the source needs to read it; picklable, and without any secret.
        estimated_rows: About how many records; -1 unknown.
        estimated_bytes: About how many bytes at the source; -1 unknown.
    """

    index: int
    name: str
    bounds: Any
    estimated_rows: int = -1
    estimated_bytes: int = -1


@dataclass(frozen=True, slots=True)
class LogSlice:
    """A stretch of the whole log.

    Attributes:
        start: Everything up to it is before the slice.
        end: Everything up to it is in the slice or before it; after `start`.
        partitions: Where its records are; no two overlap. Empty when the log moved on without any.
        first_sequence: Names the slice for people, with `last_sequence`: a function of the two offsets only, above the
            `last_sequence` of every slice that ends at `start` or before.
        last_sequence: At least `first_sequence`.
        is_complete: Whether every partition of the log takes part: only then is it known until when the tables are valid.
        tables: The only known tables that can have changes in it; None when that is unknown before it is read.
    """

    start: Offset
    end: Offset
    partitions: tuple[LogPartition, ...]
    first_sequence: int
    last_sequence: int
    is_complete: bool = False
    tables: frozenset[TableId] | None = None

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes at the source; partitions that do not report a size count as 0."""
        return sum(max(0, p.estimated_bytes) for p in self.partitions)


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """Records under a schema that the reader was not given; their changes are not delivered.

    Attributes:
        schema: The table as these records describe it.
    """

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class ReadUntil:
    """How late a partition was read.

    Attributes:
        timestamp: Highest time of a record in it, be it a change or not; microseconds since 1970 UTC.
    """

    timestamp: int


LogItem = ChangeBatch | SchemaSeen | ReadUntil


class LogPartitionReader(Protocol):
    """Reads one partition in any process; picklable, holds no connection and no secret in its repr.

    Reading a partition twice gives the same changes in the same order. Batches are bounded in size and numbered: their
    sequence numbers are the log's own and ascend within the partition, which is the order of the changes of a key. They
    carry timestamps. A table's batches all have the schema given for it.
    """

    def __call__(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
        """The changes in `partition`, in order.

        Args:
            partition: Of a slice of this log.
            tables: The tables wanted, and what is known of them. Of a wanted table whose records do not fit that, a
                `SchemaSeen` is yielded instead of its changes; of a table that is not wanted, at least once.

        Raises:
            DataError: When a record cannot be read; with its table, where that is known. Not for a record of a table
                that is not wanted: its failure must not come back when the table was left out for it.
            HistoryLostError: When the range is no longer there.
        """


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """What a table becomes by records under another schema.

    Attributes:
        schema: The table afterwards.
        alters: The steps there; empty for a new table.
    """

    schema: TableSchema
    alters: tuple[Alter, ...] = ()


class DistributedLog(ABC):
    """A source's log as a sequence of slices. Used by one thread of the driver.

    Promises of every source that has it:

    * A key of a table lives in exactly one partition, so that the parts of a slice can be applied independently. An
      UPDATE never moves a row to a key of another partition: that is a DELETE there and an INSERT here.
    * A table without a key only gets INSERTs, unless all its records are in one partition.
    * Two offsets of plans made one after the other are ordered, and so is any of them and a given `end`.

    Attributes:
        read: Reads a partition of a slice; valid in any process until `close`.
        repeats: Whether the log may repeat earlier changes (a connector that was restarted), so that inserts
            must be upserts and deletes of missing rows are no error.
        reads_tables_alone: Whether `plan_table` works: the log keeps what was committed for as long as its own rules say. Only then can
            tables be paused, and failing ones not hold the offset.
    """

    read: LogPartitionReader
    repeats: bool = True
    reads_tables_alone: bool = False

    @abstractmethod
    def initialize(self, offset: Offset | None) -> Offset:
        """Prepare to read after `offset`; called once, first. As `EventReader.initialize`.

        Raises:
            HistoryLostError: When the log after `offset` is no longer there.
            NeedsUserError: When rights or settings are missing.
        """

    @abstractmethod
    def plan(self, start: Offset, limit_bytes: int, end: Offset | None = None) -> LogSlice | None:
        """The next slice after `start`; None when there is nothing now. Does not wait.

        Args:
            start: Where the slice before ended.
            limit_bytes: About how many bytes at the source it may have; one partition's smallest piece may be larger.
            end: Do not go beyond it in any partition: it is some table's position. The slice may end before it; at it, when
                the limit allows.

        Raises:
            HistoryLostError: When the log after `start` is no longer there.
        """

    def plan_table(self, table: TableId, start: Offset, limit_bytes: int, end: Offset) -> LogSlice | None:  # noqa: ARG002 - for logs that know where a table is
        """The next slice after `start` of a table that is read by itself: it was paused, or it failed for long, and the others are
        at `end`. None when there is nothing. Does not wait, and reads no records but to learn their size. Called only where
        `reads_tables_alone` is set.

        The slice ends between the two offsets in every partition, and never before `start` in any. It may leave out
        partitions that certainly hold no changes of the table.

        Args:
            table: The table.
            start: Where its slice before ended, or where it was paused.
            limit_bytes: As for `plan`.
            end: An offset that was saved, up to which slices were planned before.

        Raises:
            HistoryLostError: When the log no longer has all changes of the table between the two; a `TableHistoryLostError` as well.
        """
        return self.plan(start, limit_bytes, end)

    @abstractmethod
    def reconcile(self, known: TableSchema | None, seen: TableSchema) -> SchemaStep | None:
        """What `known` becomes by records under `seen`; None when they fit already.

        Reconciling in any order ends with the same columns. What comes out fits every record that fitted before.

        Raises:
            SchemaDriftError: When no schema fits both.
        """

    def committed(self, offset: Offset) -> None:
        """`offset` is durable at target and state: the source may delete its log up to there. Must not fail for long."""

    @abstractmethod
    def close(self) -> None:
        """Release connections; may be called twice."""
