"""In the mode `merge-on-read`: rows that are compared and repaired, versions that come back, and commits of many batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.datatype import BOOL
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.table_reader import IcebergTableReader
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.coordinator.lakes import ONCE_AN_HOUR, started, take
from tests.plugins.targets.iceberg.merge_on_read.latest_warehouse import LatestWarehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path, iceberg_spark: SparkSession) -> LatestWarehouse:
    return LatestWarehouse(tmp_path / "lake", iceberg_spark)


def read(lake: LatestWarehouse, schema: TableSchema = KEYED) -> list[tuple[int, str, int]]:
    """What `replicator verify` reads, each row with what says where it is stored."""
    version = IcebergTableReader(lake.config, lake.context(epoch=0)).open(schema)
    return sorted((found[0], found[1], found[-1]) for found in version.rows.collect())


def test_a_comparison_reads_the_latest_rows_and_sees_which_were_written_again(lake: LatestWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), insert(row(3, "a"))]))
    before = read(lake)
    consumer.apply_batch(batch(2, [update(row(2, "a")), delete(row(3, "a"))]))
    after = read(lake)
    assert [found[:2] for found in after] == [(1, "a"), (2, "a")]
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_a_table_whose_tombstone_key_is_the_sources_is_not_compared(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark, tombstoneKey="gone")
    schema = TableSchema(TABLE, (*KEYED.columns, Column("gone", BOOL)), ("id",))
    lake.consumer().apply_batch(batch(1, [insert({**row(1, "a"), "gone": True}, schema)]))
    with pytest.raises(NeedsUserError) as raised:
        read(lake, schema)
    assert raised.value.code == "RPL-3445"


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_repaired_whatever_watermark_a_damaged_row_has(
    tmp_path: Path, iceberg_spark: SparkSession, version: int
) -> None:
    """The damage is another run's, of numbers that the log has not reached."""
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark, formatVersion=version)
    lake.consumer().apply_batch(batch(1, [insert(row(key, "a")) for key in range(1, 6)]))
    damage = [update(row(2, "damaged")), delete(row(3, "a"))]
    lake.consumer().repair_rows(batch(1, [*damage[1:]], overlap=True))
    name = lake.folder / "shop" / "customers"
    rows = iceberg_spark.read.format("iceberg").load(str(name)).where("id = 2")
    rows.selectExpr(
        "_is_deleted", "999999L as _sequence_num", "_source_timestamp", "id", "'damaged' as name", "note"
    ).write.format("iceberg").mode("append").save(str(name))
    assert (2, "damaged") in lake.names()
    consumer = lake.consumer(epoch=2)
    changes = [delete({"id": 5}), insert(row(2, "b")), insert(row(3, "b"))]
    for _ in range(2):
        consumer.repair_rows(batch(1, changes, epoch=2, overlap=True))
        assert lake.names() == [(1, "a"), (2, "b"), (3, "b"), (4, "a")]
    consumer.apply_batch(batch(2, [update(row(2, "c")), insert(row(5, "c")), delete({"id": 1})], epoch=2))
    assert lake.names() == [(2, "c"), (3, "b"), (4, "a"), (5, "c")]


def test_an_earlier_snapshot_comes_back_and_the_log_is_applied_again(lake: LatestWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    later = [update(row(1, "b")), delete(row(2, "a"))]
    consumer.apply_batch(batch(2, later))
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert lake.names() == [(1, "a"), (2, "a")]
    lake.consumer(epoch=3).apply_batch(batch(2, later, epoch=3))
    assert lake.names() == [(1, "b")]


def test_batches_of_one_commit_are_numbered_and_completed_one_after_the_other(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    """A row of which a batch lacks values is in a file that no snapshot names yet."""
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR)
    consumer = started(lake)
    take(consumer, batch(5, [insert(row(1, "a", "kept")), insert(row(2, "a"))]))
    for position, name in ((6, "b"), (7, "c")):
        changes = batch(0, [update({"id": 1, "name": name})])
        changes.identity = type(changes.identity)(1, 1, 1, 1, at(position))
        take(consumer, changes)
    consumer.settle([TABLE])
    assert {one["id"]: one["note"] for one in lake.rows(TABLE)} == {1: "kept", 2: None}
    assert lake.names() == [(1, "c"), (2, "a")]
    assert consumer.progress(TABLE).last_sequence == 5004  # type: ignore[union-attr]
    assert len([s for s in lake.summaries(TABLE) if s.get("added-data-files")]) == 1
