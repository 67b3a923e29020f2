"""`chunk_dataframe` reads each chunk in one task of its own, on the executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from replicator_sdk import Column, SnapshotChunk, TableId, TableSchema, chunk_dataframe
from replicator_sdk.datatype import INT64, STRING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SCHEMA = TableSchema(TableId("db", "t"), (Column("id", INT64), Column("where it was read", STRING)), ("id",))


def test_every_chunk_is_read_once_in_a_task_of_its_own(spark: SparkSession) -> None:
    chunks = [SnapshotChunk(i, {"low": 10 * i, "high": 10 * i + 10}) for i in range(5)]

    def read(chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "a chunk is read by an executor"
        ids = list(range(chunk.bounds["low"], chunk.bounds["high"]))
        yield pa.record_batch({"id": ids, "where it was read": [str(task.partitionId())] * 10}, schema=SCHEMA.arrow)

    rows = chunk_dataframe(spark, SCHEMA, chunks, read).collect()
    assert sorted(row["id"] for row in rows) == list(range(50))
    assert {(row["id"] // 10, row["where it was read"]) for row in rows} == {(i, str(i)) for i in range(5)}
