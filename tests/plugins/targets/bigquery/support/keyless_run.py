"""The life of one table without a key, where anything done twice shows; run by a child process that may be killed.

keyless_run.py SETTINGS EPOCH
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from replicator_sdk.datatype import INT64
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, replace_columns
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from replicator_target_bigquery.config import BigQueryConfig
from tests.plugins.targets.bigquery.support.changes import KEYLESS, alter, at, batch, delete, insert, update
from tests.plugins.targets.bigquery.support.later_runs import Step

_ROWS = [{"name": "a", "number": 1}] * 4 + [{"name": "b", "number": 2}] * 2
_EXTRA = Column("extra", INT64)
WIDER = replace_columns(KEYLESS, (*KEYLESS.columns, _EXTRA))
_A = {"name": "a", "number": 1}
LAST = sorted([["a", "1", "7"], ["a", "1", "7"], ["a", "1", "7"], ["b", "2", "7"], ["b", "2", "8"], ["c", "3", "7"]])
"""What the table holds in the end: name, number, extra."""


def live(config: BigQueryConfig, epoch: int, later: Sequence[Step] = ()) -> None:
    """Bring the table to its end from wherever it is, as the engine would; then apply what came `later`."""
    consumer = BatchMergeConsumer(config, TestTargetContext(MemoryOffset.from_fields, epoch=epoch))
    progress = consumer.progress(KEYLESS.table)
    if progress is None or progress.snapshot_chunks is not None:
        held = consumer.begin_snapshot(KEYLESS, "plan", at(1))
        chunks = [c for c in (SnapshotChunk(i, {"rest": i, "of": 2}) for i in range(2)) if c.index not in held]
        for chunk in chunks:  # one after another, by the driver
            consumer.load_chunks(KEYLESS, "plan", [chunk], MemoryChunkReader(KEYLESS, _ROWS))
        consumer.finish_snapshot(KEYLESS, "plan", at(1))
    first = [delete(_A, KEYLESS), insert({"name": "c", "number": 3}, KEYLESS)]
    consumer.apply_batch(batch(2, first, epoch=epoch))
    consumer.apply_ddl(alter(3, WIDER, Alter(AlterKind.ADD_COLUMN, _EXTRA, default=7)))
    before = {"name": "b", "number": 2, "extra": 7}
    consumer.apply_batch(batch(4, [update({**before, "extra": 8}, WIDER, before)], epoch=epoch))
    for step in later:
        step(consumer, epoch)
    consumer.settle([KEYLESS.table])
    consumer.settled(KEYLESS.table)
    consumer.stop()


if __name__ == "__main__":
    live(BigQueryConfig.model_validate_json(sys.argv[1]), int(sys.argv[2]))
