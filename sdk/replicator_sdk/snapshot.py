"""Snapshots: existing rows, read in chunks by Spark's executors.

The driver opens a `TableSnapshot`; its chunks are small serialisable values and its `read` a picklable function from
chunk to Arrow. Spark runs it on the executors; rows never pass through the driver.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import pyarrow as pa

from replicator_sdk.batch import Refusal
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """One part of a table; all parts together are the table, no two overlap.

    Attributes:
        index: Rank in the table's plan, from 0; names the chunk when a snapshot resumes.
        bounds: What the source needs to read it; JSON values only, so that it can be kept in state.
        estimated_rows: About how many rows; -1 unknown.
    """

    index: int
    bounds: Mapping[str, Any]
    estimated_rows: int = -1

    def to_json(self) -> dict[str, Any]:
        """The JSON form kept in state."""
        return {"index": self.index, "bounds": dict(self.bounds), "estimatedRows": self.estimated_rows}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SnapshotChunk:
        """The inverse of `to_json`."""
        return cls(value["index"], value["bounds"], value["estimatedRows"])


class ChunkReader(Protocol):
    """Reads one chunk in any process; picklable, holds no connection and no secret in its repr.

    Yields record batches of `schema.arrow`, bounded in size (some ten thousand rows). Reading a chunk twice at one
    position gives the same rows, in any order. Opens one connection at a time and closes it.
    """

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk`."""


class MarkedChunkReader(Protocol):
    """Reads a chunk as `ChunkReader` does, and marks refused values instead of raising for them; picklable."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[tuple[pa.RecordBatch, Mapping[str, Refusal]]]:
        """The rows of `chunk` in batches; with each the refused values by column, which are NULL in it. Never those of a key."""


class TableSnapshot(ABC):
    """One table's contents, as long as it is open. Used by one thread of the driver.

    Most sources read a table exactly at one offset. A source that cannot share one moment between connections reads
    each chunk at a moment of its own after `position`, and reports by `end` how late the latest may have been.

    Attributes:
        schema: The schema at `position`.
        position: Every transaction up to it is in the rows; none after it, unless `end` says so.
        chunks: All chunks of the table.
        read: Reads a chunk; valid in any process until `close`.
        resumable: Whether chunks may be read at different positions, by a later snapshot of the same chunks. True for
            tables with a key: the log from the earliest position on, applied as upserts and deletes, removes the
            difference. A table without a key must be read whole at one position.
        read_marked: Reads the same rows as `read`; None where values cannot be marked. Used only after `read` raised a `DataError`.
        partial_updates: Why the log may show an update without the values that it left as they were, with what to do about
            it; empty when each update has all. Such an update of a row that the copy left out could not be applied.
    """

    schema: TableSchema
    position: Offset
    chunks: tuple[SnapshotChunk, ...]
    read: ChunkReader
    resumable: bool
    read_marked: MarkedChunkReader | None = None
    partial_updates: str = ""

    def end(self) -> Offset | None:
        """How late the rows read so far may be: an offset at or after every transaction that any of them shows.

        None when all of them are exact at `position`. Anything else only for a table with a key: what the log repeats up
        to there is then applied as upserts and deletes. Asked after the last chunk was loaded.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Release what keeps the position readable; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SnapshotReader(ABC):
    """Opens snapshots of a source's tables. Safe to call from several threads, for different tables."""

    @abstractmethod
    def open(self, schema: TableSchema, chunks: Sequence[SnapshotChunk] = ()) -> TableSnapshot:
        """A snapshot of a captured table, with the columns that the table has at the snapshot's position.

        The table may have been altered since it was described. The engine skips changes of structure up to the snapshot's
        position, so the snapshot must have them: all columns of the table then, or the selected ones where the
        definition narrows the table (`EventReaderDefinition.narrowed`).

        Args:
            schema: The table as it was described (only the selected columns).
            chunks: The chunks of an interrupted, resumable snapshot, to be read with the same bounds; empty to plan.

        Raises:
            RetryableError: When the table is gone since it was described; the next attempt looks which tables there are.
            NeedsUserError: When it may not be read.
        """

    def close(self) -> None:
        """Release connections; may be called twice."""


def chunk_dataframe(
    spark: SparkSession,
    schema: TableSchema,
    chunks: Sequence[SnapshotChunk],
    read: ChunkReader,
    form: pa.Schema | None = None,
) -> DataFrame:
    """The rows of `chunks` as a DataFrame that reads each chunk in one task on the executors.

    Every evaluation reads the source again. Column names and order are `schema.names`.

    Args:
        spark: The session.
        schema: The table's schema.
        chunks: What to read.
        read: Reads a chunk.
        form: Other Arrow types for the columns, in their order, which hold the same values (`TableVersion.form`): rows are
            cast to them, and times without a zone stay without one. `schema.arrow` when left out.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    parts = [(bytearray(pickle.dumps(chunk)),) for chunk in chunks]
    # One partition for each chunk: a repartition would run a job first and put two chunks into one task.
    plan = spark.createDataFrame(spark.sparkContext.parallelize(parts, max(1, len(parts))), "chunk binary")
    arrow = schema.arrow if form is None else form

    def read_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On an executor: the rows of the chunks that `batches` hold packed."""
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                for rows in read(pickle.loads(bytes(packed))):  # noqa: S301 - packed by the driver above
                    yield rows.cast(arrow) if rows.schema != arrow else rows

    return plan.mapInArrow(read_chunks, from_arrow_schema(arrow, prefer_timestamp_ntz=form is not None))
