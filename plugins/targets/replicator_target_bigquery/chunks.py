"""Chunks of a snapshot read, encoded and written to the bucket, by the driver or by one of Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from replicator_sdk.schema import TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_target_bigquery.client import storage_client
from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, BigQueryConfig
from replicator_target_bigquery.encoding import in_order, loadable
from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.key_column import key_array
from replicator_target_bigquery.names import column_names
from replicator_target_bigquery.patience import Patience
from replicator_target_bigquery.uploads import FILE_BYTES, Files, Folder

_TASKS_AT_MOST: Final = 1000  # of one load, each with a file or more: a load job takes 10,000
Chunks = Sequence[SnapshotChunk]


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Reads chunks as the columns of their table at BigQuery. Picklable.

    Attributes:
        config: The settings.
        schema: The table.
        fields: Its columns at BigQuery.
        read: Reads a chunk.
    """

    config: BigQueryConfig
    schema: TableSchema
    fields: Sequence[Field]
    read: ChunkReader

    def __call__(self, chunks: Chunks) -> Iterator[pa.Table]:
        """The rows of the chunks, batch by batch."""
        names = column_names(self.schema, self.config.metadata_columns)
        for chunk in chunks:
            for batch in self.read(chunk):
                yield in_order(pa.table(self._columns(batch, names)), self.fields)

    def _columns(self, batch: pa.RecordBatch, names: dict[str, str]) -> dict[str, pa.Array]:
        columns = {names[name]: loadable(batch.column(name)) for name in batch.schema.names}
        if self.config.kafka_key_field_name and self.schema.primary_key:
            whole = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns[self.config.kafka_key_field_name] = key_array(self.schema, whole)
        columns[SEQUENCE] = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        if self.config.soft_deletes:
            columns[IS_DELETED] = pa.repeat(pa.scalar(value=False), batch.num_rows)
        return columns


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
        """The chunks' files; those of an attempt that did not return count for nothing."""
        config = self.rows.config
        with closing(storage_client(config)) as client:
            return self.folder.write(client, Patience(config.retry_seconds), self.rows(chunks), self.file_bytes)


def tasks_of(chunks: Chunks) -> list[Chunks]:
    """The chunks, one a task; some side by side in a task where a load would have too many files else."""
    size = -(-len(chunks) // _TASKS_AT_MOST)
    return [chunks[start : start + size] for start in range(0, len(chunks), size)]
