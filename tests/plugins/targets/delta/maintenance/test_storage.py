"""What the target says of a table's files is what another reader counts in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.event import DDLOperation
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_delta.consumer import DeltaConsumer
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.stored import said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counted(lake: Lake) -> TableStorage:
    """As `deltalake` names the files and reads the rows, and Arrow the files' footers."""
    paths = [path.removeprefix("file://") for path in deltalake.DeltaTable(str(lake.path(TABLE))).file_uris()]
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    nbytes = sum(pa.OSFile(path).size() for path in paths)
    return TableStorage(len(paths), nbytes, rows, rows - lake.arrow(TABLE).num_rows)


def test_after_every_commit_the_run_knows_what_the_table_consists_of(lake: Lake) -> None:
    """After copies, batches, a change of structure, maintenance beside it, and by a consumer that only looks at the table."""
    context = lake.context()
    consumer = DeltaConsumer(lake.config, context)
    assert consumer.progress(TABLE) is None
    assert said(context) is None
    rows = pa.RecordBatch.from_pylist([row(number, "a") for number in range(200)], KEYED.arrow)
    consumer.load_whole(KEYED, "s", at(1), [SnapshotChunk(0, {})], lambda _: iter([rows]), lambda: None)
    assert said(context) == counted(lake)
    debts = []
    for number in range(2, 8):
        changes = [delete({"id": 3 * number}), update(row(100 + number, "b")), insert(row(1000 + number))]
        consumer.apply_batch(batch(number, changes))
        assert said(context) == counted(lake)
        debts.append(counted(lake).deleted_rows)
    assert debts[-1], "rows are deleted by deletion vectors"
    looking = lake.context()
    DeltaConsumer(lake.config, looking).progress(TABLE)
    assert said(looking) == counted(lake)
    maintaining = lake.context()
    for task in lake.target.maintenance_tasks:
        lake.target.maintain_table(maintaining, task, TABLE)
    assert said(maintaining) == counted(lake)
    consumer.apply_batch(batch(8, [delete({"id": number}) for number in range(60, 99)]))
    assert said(context) == counted(lake)
    consumer.apply_ddl(ddl(9, DDLOperation.TRUNCATE_TABLE))
    assert said(context) == counted(lake) == TableStorage(0, 0, 0, 0)


def test_files_of_another_program_are_counted_when_the_table_is_read_next(lake: Lake) -> None:
    context = lake.context()
    consumer = DeltaConsumer(lake.config, context)
    for number in range(1, 8):
        consumer.apply_batch(
            batch(number, [insert(row(number)), insert(row(100 + number)), delete({"id": 99 + number})])
        )
    lake.maintain(TABLE, "compact")
    assert said(context) != counted(lake)
    consumer.progress(TABLE)
    assert said(context) == counted(lake)


def test_rows_that_are_marked_as_deleted_in_a_column_are_no_debt(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(tmp_path / "lake", spark, softDeletes=True)
    context = lake.context()
    consumer = DeltaConsumer(lake.config, context)
    consumer.apply_batch(batch(1, [insert(row(number)) for number in range(20)]))
    consumer.apply_batch(batch(2, [delete({"id": 3})]))
    assert said(context) == counted(lake)
    assert lake.arrow(TABLE).num_rows == 20
