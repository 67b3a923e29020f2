"""Reads, encodes and uploads chunks of a snapshot, on the driver or on Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.timeline import timed
from replicator_target_bigquery.api.clients import storage_client
from replicator_target_bigquery.api.retry import RetryPolicy
from replicator_target_bigquery.load.uploads import FILE_BYTES, Files, Folder
from replicator_target_bigquery.schema.encoding import RowEncoding, in_order
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.names import column_names

_TASKS_AT_MOST: Final = 1000  # of one load, each with a file or more: a load job takes 10,000
Chunks = Sequence[SnapshotChunk]


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Reads chunks as the columns of their table at BigQuery. Picklable.

    Attributes:
        layout: What target tables look like.
        schema: The table.
        fields: Its columns at BigQuery.
        read: Reads a chunk.
    """

    layout: TableLayout
    schema: TableSchema
    fields: Sequence[Field]
    read: ChunkReader

    def __call__(self, chunks: Chunks) -> Iterator[pa.Table]:
        """The rows of the chunks, batch by batch."""
        names = column_names(self.schema, self.layout.config.metadata_columns)
        encoding = self.layout.encoding(self.schema.table, self.fields)
        for chunk in chunks:
            for batch in timed("chunk.read", self.read(chunk)):
                yield in_order(pa.table(self._columns(batch, names, encoding)), self.fields)

    def _columns(self, batch: pa.RecordBatch, names: dict[str, str], encoding: RowEncoding) -> dict[str, pa.Array]:
        columns = {names[name]: encoding.column(names[name], batch.column(name)) for name in batch.schema.names}
        whole = dict(zip(batch.schema.names, batch.columns, strict=True))
        return columns | self.layout.snapshot_values(self.schema, whole, batch.num_rows)


@dataclass(frozen=True, slots=True)
class ChunkUpload:
    """Writes the rows of chunks into a folder of the bucket; run by an executor, with a client of its own. Picklable.

    Attributes:
        rows: Reads the chunks.
        folder: Where their files go.
        file_bytes: How many bytes of Arrow end a file.
    """

    rows: ChunkRows
    folder: Folder
    file_bytes: int = FILE_BYTES

    def __call__(self, chunks: Chunks) -> Files:
        """The chunks' files; files of an attempt that did not return are never loaded."""
        config = self.rows.layout.config
        with closing(storage_client(config)) as client:
            return self.folder.write(client, RetryPolicy(config.retry_seconds), self.rows(chunks), self.file_bytes)


def tasks_of(chunks: Chunks) -> list[Chunks]:
    """The chunks, one a task; several in a task where a load would otherwise have too many files."""
    size = -(-len(chunks) // _TASKS_AT_MOST)
    return [chunks[start : start + size] for start in range(0, len(chunks), size)]
