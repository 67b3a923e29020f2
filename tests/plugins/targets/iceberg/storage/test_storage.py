"""What the target says of a table's files is what another reader counts in the table's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.event import DDLOperation
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_iceberg.consumer import IcebergConsumer
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.plugins.targets.stored import said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def assert_counted(lake: Warehouse, said: TableStorage | None) -> int:
    """It is what `pyiceberg` finds in the metadata table `files`, and as many rows are gone as it does not read; returns how many."""
    assert said is not None
    if lake.table(TABLE).current_snapshot() is None:
        assert said == TableStorage(0, 0, 0, 0)
        return 0
    files = lake.table(TABLE).inspect.data_files().to_pylist()
    deletes = lake.table(TABLE).inspect.delete_files().to_pylist()
    rows = sum(file["record_count"] for file in files)
    gone: int = rows - lake.arrow(TABLE).num_rows
    assert (said.files, said.rows, said.deleted_rows) == (len(files), rows, gone)
    assert said.nbytes is not None
    nbytes = sum(file["file_size_in_bytes"] for file in files)
    assert nbytes <= said.nbytes <= nbytes + sum(file["file_size_in_bytes"] for file in deletes)
    return gone


@pytest.mark.parametrize("version", [2, 3])
def test_after_every_commit_the_run_knows_what_the_table_consists_of(
    tmp_path: Path, iceberg_spark: SparkSession, version: int
) -> None:
    """After copies, batches, a change of structure, maintenance beside it, and by a consumer that only looks at the table."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, formatVersion=version)
    context = lake.context()
    consumer = IcebergConsumer(lake.config, context)
    assert said(context) is None
    rows = pa.RecordBatch.from_pylist([row(number, "a") for number in range(200)], KEYED.arrow)
    consumer.load_whole(KEYED, "s", at(1), [SnapshotChunk(0, {})], lambda _: iter([rows]), lambda: None)
    assert_counted(lake, said(context))
    debts = []
    for number in range(2, 6):
        changes = [delete({"id": 3 * number}), update(row(100 + number, "b")), insert(row(1000 + number))]
        consumer.apply_batch(batch(number, changes))
        debts.append(assert_counted(lake, said(context)))
    assert debts[-1] > debts[0] > 0, "rows are deleted by files of deletes"
    looking = lake.context()
    other = IcebergConsumer(lake.config, looking)
    other.progress(TABLE)
    assert_counted(lake, said(looking))
    other.stop()
    maintaining = lake.context()
    consumer.apply_batch(batch(8, [delete({"id": number}) for number in range(20, 99)]))
    assert_counted(lake, said(context))
    [compact] = [task for task in lake.target.maintenance_tasks if task.name == "compact"]
    assert lake.target.maintain_table(maintaining, compact, TABLE).has_changed
    assert assert_counted(lake, said(maintaining)) == 0
    consumer.apply_batch(batch(9, [delete({"id": 199})]))
    assert assert_counted(lake, said(context)) == 1
    consumer.apply_ddl(ddl(10, DDLOperation.TRUNCATE_TABLE))
    assert_counted(lake, said(context))
    consumer.stop()
