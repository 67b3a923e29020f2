"""A snapshot whose chunks executors read: numbered rows of a table without a key, where anything loaded twice shows.

numbered_run.py SETTINGS EPOCH loads it in a process of its own, which may be killed, with executors that are allowed to fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.load import snapshot_load as snapshot
from tests.plugins.targets.bigquery.support.changes import KEYLESS, at

CHUNKS = [SnapshotChunk(i, {"start": i * 20, "stop": i * 20 + 20}) for i in range(5)]
WAVES = CHUNKS[:3], CHUNKS[3:]
ROWS = sorted([f"n{i}", str(i)] for i in range(100))
"""What the table holds in the end: name, number."""


@dataclass(frozen=True)
class Numbers:
    """Reads a chunk as the rows its bounds number, ten a batch.

    Attributes:
        by_executors: Whether it refuses to be the driver's.
        stumbles: Whether the first attempt at the second chunk fails once it has read everything but one batch.
    """

    by_executors: bool = True
    stumbles: bool = False

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk`."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None or not self.by_executors, "a chunk was read by the driver"
        for start in range(chunk.bounds["start"], chunk.bounds["stop"], 10):
            if self.stumbles and chunk.index == 1 and start > 20 and task is not None and not task.attemptNumber():
                raise ConnectionError("cut off")
            rows = [{"name": f"n{i}", "number": i} for i in range(start, start + 10)]
            yield pa.RecordBatch.from_pylist(rows, schema=KEYLESS.arrow)


class Refusing:
    """A reader that may not read to the end."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk`, and no success."""
        yield from Numbers()(chunk)
        raise NeedsUserError(f"no right to read chunk {chunk.index}", code="RPL-3999", hint="grant it")


class Crashing:
    """A reader with a fault that names a value."""

    def __call__(self, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        """The rows of `chunk`, and no success."""
        yield from Numbers()(chunk)
        raise ValueError("cannot read 'secret of a row'")


def load(consumer: BigQueryConsumer, read: Numbers) -> None:
    """Bring the table to its end from wherever it is, as the engine would."""
    held = consumer.begin_snapshot(KEYLESS, "plan", at(1))
    for wave in WAVES:
        consumer.load_chunks(KEYLESS, "plan", [c for c in wave if c.index not in held], read)
    consumer.finish_snapshot(KEYLESS, "plan", at(1))


def _live(config: BigQueryConfig, epoch: int) -> None:
    from pyspark.sql import SparkSession

    from tests.services.spark.session import SMALL  # executors import this module, and that one finds no Spark there

    # Two threads, two attempts: a session of tests allows a task one.
    spark = SparkSession.builder.config(map={**SMALL, "spark.master": "local[2,2]"}).getOrCreate()
    vars(snapshot)["FILE_BYTES"] = 1  # each batch is a file
    context = TestTargetContext(MemoryOffset.from_fields, epoch=epoch, spark=lambda: spark)
    load(BatchMergeConsumer(config, context), Numbers(stumbles=True))


if __name__ == "__main__":
    _live(BigQueryConfig.model_validate_json(sys.argv[1]), int(sys.argv[2]))
