"""The life of one table in mode `cdc`; run by a child process that may be killed.

killed_run.py SETTINGS EPOCH
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from replicator_sdk.datatype import INT64
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, replace_columns
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_bigquery.cdc.consumer import CdcConsumer
from replicator_target_bigquery.config import BigQueryConfig
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.later_runs import Step

_EXTRA = Column("extra", INT64)
WIDER = replace_columns(KEYED, (*KEYED.columns, _EXTRA))
LAST = [["1", "a", None], ["3", "moved", None], ["9", "new", "7"]]
"""What the table holds in the end: id, name, extra."""


def live(config: BigQueryConfig, epoch: int, later: Sequence[Step] = ()) -> None:
    """Bring the table to its end from wherever it is, as the engine would; then apply what came `later`."""
    consumer = CdcConsumer(config, TestTargetContext(MemoryOffset.from_fields, epoch=epoch))
    progress = consumer.progress(KEYED.table)
    if progress is None or progress.snapshot_chunks is not None:
        held = consumer.begin_snapshot(KEYED, "plan", at(1))
        chunks = [c for c in (SnapshotChunk(i, {"rest": i, "of": 2}) for i in range(2)) if c.index not in held]
        for chunk in chunks:  # one after another, by the driver
            consumer.load_chunks(KEYED, "plan", [chunk], MemoryChunkReader(KEYED, [row(8, "old"), row(9, "old")]))
        consumer.finish_snapshot(KEYED, "plan", at(1))
    consumer.apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE))
    first = [insert(row(1, "a")), insert(row(2, "b")), insert(row(4)), delete({"id": 4})]
    consumer.apply_batch(batch(3, first, epoch=epoch))
    consumer.apply_ddl(alter(4, WIDER, Alter(AlterKind.ADD_COLUMN, _EXTRA)))
    moved = {**row(3, "moved"), "extra": None}
    new = {**row(9, "new"), "extra": 7}
    changes = [update(moved, WIDER, {"id": 2}), insert(new, WIDER)]
    consumer.apply_batch(batch(5, changes, epoch=epoch))
    for step in later:
        step(consumer, epoch)
    consumer.stop()


if __name__ == "__main__":
    live(BigQueryConfig.model_validate_json(sys.argv[1]), int(sys.argv[2]))
