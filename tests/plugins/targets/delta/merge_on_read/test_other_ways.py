"""In the mode `merge-on-read`: rows that are compared, repaired and read back, versions that come back, and slices of a distributed log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.datatype import BOOL
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_sdk.schema import Column, TableSchema
from replicator_target_delta.table_reader import DeltaTableReader
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.apply.test_slice import Copy
from tests.plugins.targets.delta.merge_on_read.latest import LatestLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> LatestLake:
    return LatestLake(tmp_path / "lake", spark)


def by_key(lake: LatestLake) -> list[tuple[int, str]]:
    return sorted((one["id"], one["name"]) for one in lake.rows(TABLE))


def read(lake: LatestLake, schema: TableSchema = KEYED) -> list[tuple[int, str, int]]:
    """What `replicator verify` reads, each row with what says where it is stored."""
    version = DeltaTableReader(lake.config, lake.context(epoch=0)).open(schema)
    return sorted((found[0], found[1], found[-1]) for found in version.rows.collect())


def test_a_comparison_reads_the_latest_rows_and_sees_which_were_written_again(lake: LatestLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), insert(row(3, "a"))]))
    before = read(lake)
    consumer.apply_batch(batch(2, [update(row(2, "a")), delete(row(3, "a"))]))
    after = read(lake)
    assert [found[:2] for found in after] == [(1, "a"), (2, "a")]
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_a_table_whose_tombstone_key_is_the_sources_is_not_compared(tmp_path: Path, spark: SparkSession) -> None:
    lake = LatestLake(tmp_path / "lake", spark, tombstoneKey="gone")
    schema = TableSchema(TABLE, (*KEYED.columns, Column("gone", BOOL)), ("id",))
    lake.consumer().apply_batch(batch(1, [insert({**row(1, "a"), "gone": True}, schema)]))
    with pytest.raises(NeedsUserError) as raised:
        read(lake, schema)
    assert raised.value.code == "RPL-3418"


def test_rows_are_repaired_whatever_watermark_a_damaged_row_has(lake: LatestLake, spark: SparkSession) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(1, 6)]))
    place = f"delta.`{lake.path(TABLE)}`"
    spark.sql(
        f"INSERT INTO {place} SELECT id, 'damaged', note, 999999, _is_deleted, _source_timestamp FROM {place} WHERE id = 2"
    )
    spark.sql(f"DELETE FROM {place} WHERE id = 3")
    assert (2, "damaged") in by_key(lake)
    consumer = lake.consumer(epoch=2)
    changes = [delete({"id": 5}), insert(row(2, "b")), insert(row(3, "b"))]
    for _ in range(2):
        consumer.repair_rows(batch(1, changes, epoch=2, overlap=True))
        assert by_key(lake) == [(1, "a"), (2, "b"), (3, "b"), (4, "a")]
    consumer.apply_batch(batch(2, [update(row(2, "c")), insert(row(5, "c")), delete({"id": 1})], epoch=2))
    assert by_key(lake) == [(2, "c"), (3, "b"), (4, "a"), (5, "c")]


def test_an_earlier_version_comes_back_and_the_log_is_applied_again(lake: LatestLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    later = [update(row(1, "b")), delete(row(2, "a"))]
    consumer.apply_batch(batch(2, later))
    version = lake.consumer(epoch=2).find_version(TABLE, at(1))
    assert version is not None
    assert (version.rows_now, version.rows_then) == (None, None)
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert by_key(lake) == [(1, "a"), (2, "a")]
    lake.consumer(epoch=3).apply_batch(batch(2, later, epoch=3))
    assert by_key(lake) == [(1, "b")]


def test_executors_append_what_they_read_in_partitions_whose_numbers_are_their_own(
    tmp_path: Path, lake: LatestLake
) -> None:
    """A key that another partition has from the second slice on is numbered lower there."""
    copy = Copy(tmp_path, lake)
    consumer = copy.consumer()
    first = [insert(row(1, "a")), *(update(row(1, f"b{n}")) for n in range(20)), insert(row(2, "a"))]
    copy.folder.append(first, partition=0)
    copy.folder.append([insert(row(3, "a"))], partition=1)
    outcome = copy.take(consumer, tables={TABLE: KEYED})
    assert not outcome.failures
    assert by_key(lake) == [(1, "b19"), (2, "a"), (3, "a")]
    assert lake.arrow(TABLE).num_rows == 23
    end = copy.folder.end()
    copy.folder.append([update(row(1, "moved")), delete(row(2, "a"))], partition=1)
    assert not copy.take(consumer, end, {TABLE: KEYED}).failures
    assert by_key(lake) == [(1, "moved"), (3, "a")]


def test_changes_of_a_key_in_two_partitions_of_one_slice_are_refused(tmp_path: Path, lake: LatestLake) -> None:
    copy = Copy(tmp_path, lake)
    copy.folder.append([insert(row(1, "a")), insert(row(2, "a"))], partition=0)
    copy.folder.append([update(row(1, "b"))], partition=1)
    (error,) = copy.take(copy.consumer(), tables={TABLE: KEYED}).failures.values()
    assert isinstance(error, DataError)
    assert error.code == "RPL-5406"
