"""The life of one table in mode merge-flush; run by a child process that may be killed.

killed_run.py SETTINGS EPOCH
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from replicator_sdk.datatype import INT64
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, replace_columns
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.target import DeferredConsumer
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.merge_flush.consumer import create
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, at, batch, delete, insert, row, update
from tests.plugins.targets.bigquery.support.later_runs import Step

_EXTRA = Column("extra", INT64)
WIDER = replace_columns(KEYED, (*KEYED.columns, _EXTRA))
MERGED = [["3", "moved", None], ["4", "come", "8"]]
"""What the table holds in the end, merged: id, name, extra."""
APPENDED = [["1", "a"], ["2", "b"], ["3", "moved"], ["4", "come"]]
"""The same, appended; id, name. The emulator streams nothing into a table whose columns have changed."""


def live(config: BigQueryConfig, epoch: int, later: Sequence[Step] = ()) -> None:
    """Bring the table to its end from wherever it is, as the engine would; then apply what came `later`."""
    consumer = create(config, TestTargetContext(MemoryOffset.from_fields, epoch=epoch))
    progress = consumer.progress(KEYED.table)
    if progress is None or progress.snapshot_chunks is not None:
        consumer.begin_snapshot(KEYED, "plan", at(1))
        chunks = [SnapshotChunk(0, {"rest": 0, "of": 1})]
        consumer.load_chunks(KEYED, "plan", chunks, MemoryChunkReader(KEYED, [row(1, "a"), row(2, "b")]))
        consumer.finish_snapshot(KEYED, "plan", at(1))
    consumer.apply_batch(batch(2, [delete({"id": 2})], epoch=epoch))
    consumer.apply_batch(batch(3, [update(row(3, "moved"), before={"id": 1})], epoch=epoch))
    if isinstance(consumer, DeferredConsumer):
        _settle(consumer)
        consumer.apply_ddl(alter(4, WIDER, Alter(AlterKind.ADD_COLUMN, _EXTRA)))
        consumer.apply_batch(batch(5, [insert({**row(4, "come"), "extra": 8}, WIDER)], epoch=epoch))
        _settle(consumer)
    else:
        consumer.apply_batch(batch(5, [insert(row(4, "come"))], epoch=epoch))
    for step in later:
        step(consumer, epoch)
    if later and isinstance(consumer, DeferredConsumer):
        _settle(consumer)
    consumer.stop()


def _settle(consumer: DeferredConsumer) -> None:
    consumer.settle([KEYED.table])
    consumer.settled(KEYED.table)


if __name__ == "__main__":
    live(BigQueryConfig.model_validate_json(sys.argv[1]), int(sys.argv[2]))
