"""Compaction of a merge-on-read table leaves rows out that no reader sees, in one commit that a writer's commit makes fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from replicator_sdk import failpoint
from replicator_sdk.datatype import STRING
from replicator_sdk.distributed.executors import run_on_executors
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import Column, TableSchema
from replicator_target_delta.maintenance import compaction
from replicator_target_delta.merge_on_read import folding
from replicator_target_delta.table import TargetTable
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.merge_on_read.latest import LatestLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeLake = Callable[..., LatestLake]


@pytest.fixture
def make_lake(tmp_path: Path, spark: SparkSession) -> MakeLake:
    return lambda **settings: LatestLake(tmp_path / "lake", spark, **settings)


def by_key(lake: LatestLake) -> list[tuple[int, str]]:
    return sorted((one["id"], one["name"]) for one in lake.rows(TABLE))


def write(lake: LatestLake, first: int = 1) -> list[tuple[int, str]]:
    """Ten batches: a key that is updated in each, one that is inserted in each, and deleted in the next one."""
    consumer = lake.consumer()
    for number in range(first, first + 10):
        hot = update(row(0, f"at {number}"))
        gone = [delete(row(number - 1, "new"))] if number > first else []
        consumer.apply_batch(batch(number, [hot, insert(row(number, "new")), *gone]))
    return by_key(lake)


def test_rows_that_are_replaced_go_and_so_do_tombstones_of_which_nothing_older_is_left(make_lake: MakeLake) -> None:
    lake = make_lake()
    seen = write(lake)
    report = lake.maintain(TABLE, "compact")["compact"]
    assert (report.files_before, report.files_after) == (10, 1)
    assert by_key(lake) == seen == [(0, "at 10"), (10, "new")]
    assert lake.arrow(TABLE).num_rows == 2
    progress = lake.consumer().progress(TABLE)
    assert progress is not None
    assert (progress.position, progress.last_sequence) == (at(10), 10003)
    assert write(lake, 11) == [(0, "at 20"), (10, "new"), (20, "new")]


@pytest.mark.parametrize("most", [folding._ROWS_LOOKED_THROUGH, 0])
def test_a_tombstone_stays_while_another_file_has_a_row_of_its_key_or_may_have(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A large file is not put together with small ones; without a limit it is looked through."""
    monkeypatch.setattr(folding, "_ROWS_LOOKED_THROUGH", most)
    monkeypatch.setattr(compaction, "run_on_executors", lambda _spark, work, tasks: [work(task) for task in tasks])
    lake = make_lake()
    lake.consumer().apply_batch(batch(1, [insert(row(key, uuid4().hex)) for key in range(100, 4100)]))
    for number in range(2, 11):
        changes = [delete(row(100 + number)), insert(row(number, "new")), delete(row(number, "new"))]
        lake.consumer(epoch=number).apply_batch(batch(number, changes, epoch=number))
    seen = by_key(lake)
    table = TargetTable(TABLE, lake.config, lake.context(epoch=20), lake.spark())
    largest = max(file.stat().st_size for file in lake.path(TABLE).glob("*.parquet"))
    compaction.compact(table, lake.spark(), 2 * largest - 2)
    assert by_key(lake) == seen
    history = lake.arrow(TABLE).to_pylist()
    tombstones = {one["id"] for one in history if one["_is_deleted"]}
    kept = set(range(102, 111))
    assert tombstones == (kept if most else kept | set(range(2, 11)))


def test_tombstones_stay_where_the_source_gives_watermarks(make_lake: MakeLake) -> None:
    """A row with a lower watermark may come later."""
    lake = make_lake(watermarkKeys=["note"])
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert(row(number, "a", "5")), delete(row(number, "a", "5"))]))
    lake.maintain(TABLE, "compact")
    assert lake.arrow(TABLE).num_rows == 9
    consumer = lake.consumer(epoch=2)
    consumer.apply_batch(batch(10, [insert(row(1, "late", "4")), insert(row(2, "new", "6"))], epoch=2))
    assert by_key(lake) == [(2, "new")]


def test_rows_that_the_source_marks_as_deleted_stay_for_updates_that_do_not_send_all(make_lake: MakeLake) -> None:
    schema = TableSchema(TABLE, (*KEYED.columns, Column("gone", STRING)), ("id",))
    lake = make_lake(tombstoneKey="gone")
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert({**row(number, "a"), "gone": "yes"}, schema)]))
    lake.maintain(TABLE, "compact")
    assert lake.rows(TABLE) == []
    lake.consumer(epoch=2).apply_batch(batch(10, [update({"id": 1, "gone": None}, schema)], epoch=2))
    assert by_key(lake) == [(1, "a")]


def test_where_a_writer_has_committed_meanwhile_nothing_is_folded_until_the_next_step(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake()
    write(lake)
    consumer = lake.consumer()
    done = run_on_executors

    def slow(spark: Any, work: Any, tasks: Any) -> Any:
        made = done(spark, work, tasks)
        monkeypatch.setattr(compaction, "run_on_executors", done)
        consumer.apply_batch(batch(11, [update(row(0, "meanwhile")), delete(row(10, "new"))]))
        return made

    monkeypatch.setattr(compaction, "run_on_executors", slow)
    with pytest.raises(ReplicatorError):
        lake.maintain(TABLE, "compact")
    assert by_key(lake) == [(0, "meanwhile")]
    lake.maintain(TABLE, "compact")
    assert by_key(lake) == [(0, "meanwhile")]
    assert lake.arrow(TABLE).num_rows == 1


def test_an_end_before_the_commit_leaves_the_table_as_it_was(make_lake: MakeLake) -> None:
    lake = make_lake()
    seen = write(lake)
    rows = lake.arrow(TABLE).num_rows
    failpoint.arm("delta.compaction.written=raise")
    try:
        with pytest.raises(ReplicatorError):
            lake.maintain(TABLE, "compact")
    finally:
        failpoint.arm("")
    assert (by_key(lake), lake.arrow(TABLE).num_rows) == (seen, rows)


def test_a_version_of_before_comes_back_with_the_rows_that_were_left_out(make_lake: MakeLake) -> None:
    lake = make_lake()
    write(lake)
    lake.maintain(TABLE, "compact")
    lake.consumer(epoch=2).rewind_table(TABLE, at(5))
    assert by_key(lake) == [(0, "at 5"), (5, "new")]
    lake.consumer(epoch=3).apply_batch(batch(6, [update(row(0, "again")), delete(row(5, "new"))], epoch=3))
    assert by_key(lake) == [(0, "again")]
