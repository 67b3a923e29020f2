"""Others commit while batches wait for their commit: newer runs of the replicator, and other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.errors import FencedError, RetryableError
from replicator_target_iceberg.config import CatalogType
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.maintenance import compaction
from replicator_target_iceberg.maintenance.steps import COMPACT
from tests.plugins.targets.changes import TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.coordinator.lakes import (
    ONCE_AN_HOUR,
    files,
    shown,
    started,
    take,
    written_slowly,
)
from tests.plugins.targets.iceberg.others import before_publishing, compacts, foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=[(CatalogType.HADOOP, 3), (CatalogType.JDBC, 2)], ids=str)
def lake(request: pytest.FixtureRequest, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    catalog, version = request.param
    return Warehouse(tmp_path / "lake", iceberg_spark, catalog, commitIntervalMs=ONCE_AN_HOUR, formatVersion=version)


def test_what_a_run_has_taken_is_not_committed_once_a_newer_run_has_the_table(lake: Warehouse) -> None:
    """The newer one got the same changes again, in other batches."""
    older = started(lake)
    older.apply_batch(batch(1, [insert(row(1, "older"))]))
    newer = started(lake, epoch=2)
    newer.apply_batch(batch(2, [insert(row(1, "newer")), insert(row(2, "newer"))], epoch=2))
    newer.settle([TABLE])
    older.apply_batch(batch(2, [insert(row(2, "older"))]))
    older.settle([TABLE])
    with pytest.raises(FencedError, match="RPL-8420"):
        older.settled(TABLE)
    with pytest.raises(FencedError, match="RPL-8420"):
        older.apply_batch(batch(3, [insert(row(3))]))
    assert shown(lake) == {1: ("newer", None), 2: ("newer", None)}
    for consumer in (older, newer):
        consumer.stop()
    assert shown(lake) == {1: ("newer", None), 2: ("newer", None)}


def test_a_newer_run_that_commits_inside_the_older_ones_commit_is_the_only_one(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = started(lake), started(lake, epoch=2)
    older.apply_batch(batch(1, [insert(row(1, "older"))]))
    newer.apply_batch(batch(1, [insert(row(1, "newer"))], epoch=2))
    before_publishing(monkeypatch, lambda: newer.settle([TABLE]))
    older.settle([TABLE])
    with pytest.raises(FencedError, match="RPL-8420"):
        older.settled(TABLE)
    assert newer.settled(TABLE) == at(1)
    assert shown(lake) == {1: ("newer", None)}
    for consumer in (older, newer):
        consumer.stop()


def test_commits_of_others_that_leave_the_files_alone_are_followed(lake: Warehouse) -> None:
    """Without that a table to which another program commits more often than the interval would never have a commit."""
    consumer = started(lake)
    consumer.apply_batch(batch(1, [insert(row(key, "old")) for key in range(4)]))
    consumer.settle([TABLE])
    consumer.apply_batch(batch(2, [delete({"id": 0}), insert(row(7, "new"))]))
    foreign(lake, compacts)
    consumer.apply_batch(batch(3, [delete({"id": 7}), update({"id": 1, "name": "new"}), insert(row(8, "new"))]))
    foreign(lake, compacts)
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(3)
    left = {1: ("new", None), 2: ("old", None), 3: ("old", None), 8: ("new", None)}
    assert shown(lake) == left
    consumer.apply_batch(batch(4, [delete({"id": key}) for key in (1, 2)]))
    foreign(lake, compacts)
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(4)
    assert sorted(shown(lake)) == [3, 8]
    consumer.stop()


def removes_first_file(table: Any, _: Catalog) -> None:
    """As a compaction that has written its rows elsewhere."""
    tasks = table.newScan().planFiles().iterator()
    table.newDelete().deleteFile(tasks.next().file()).commit()


def adds_column(table: Any, catalog: Catalog) -> None:
    table.updateSchema().addColumn("added", catalog.jvm[".types.Types"].StringType.get()).commit()


def evolves_partitions(table: Any, _: Catalog) -> None:
    table.updateSpec().addField("name").commit()


@pytest.mark.parametrize("step", [removes_first_file, adds_column, evolves_partitions])
def test_changes_of_others_that_the_written_files_do_not_fit_make_them_be_written_again(
    tmp_path: Path, iceberg_spark: SparkSession, step: Any
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR)
    consumer = started(lake)
    consumer.apply_batch(batch(1, [insert(row(1, "old")), insert(row(2, "old"))]))
    consumer.settle([TABLE])
    there, snapshots = files(lake), len(lake.summaries(TABLE))
    consumer.apply_batch(batch(2, [delete({"id": 1}), insert(row(3, "new"))]))
    foreign(lake, step)
    consumer.settle([TABLE])
    with pytest.raises(RetryableError, match="RPL-4422"):
        consumer.settled(TABLE)
    consumer.stop()
    assert files(lake) == there
    assert len(lake.summaries(TABLE)) <= snapshots + 1


def test_a_table_that_was_rolled_back_meanwhile_gets_nothing(lake: Warehouse) -> None:
    consumer = started(lake)
    for number in (1, 2):
        consumer.apply_batch(batch(number, [insert(row(number))]))
        consumer.settle([TABLE])
    consumer.apply_batch(batch(3, [insert(row(3))]))
    first = lake.table(TABLE).snapshots()[1].snapshot_id
    foreign(lake, lambda table, _: table.manageSnapshots().rollbackTo(first).commit())
    consumer.settle([TABLE])
    with pytest.raises(RetryableError, match="RPL-44"):
        consumer.settled(TABLE)
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    assert sorted(shown(lake)) == [1]
    consumer.stop()


def test_a_late_batch_that_changes_rows_which_others_have_moved_before_the_commit_it_follows_is_written_again(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That commit does not touch these rows, so it follows the compaction; the late batch was written for the files before it."""
    monkeypatch.setattr(compaction, "_MANY_SMALL_FILES", 1)
    consumer = started(lake)
    take(consumer, batch(1, [insert(row(key, "old")) for key in range(4)]))
    consumer.settle([TABLE])
    take(consumer, batch(2, [insert(row(4, "old"))]))
    with written_slowly(monkeypatch, consumer, batch(3, [delete({"id": 0}), update({"id": 1, "name": "new"})])):
        lake.maintain(TABLE, COMPACT)
        consumer.settle([TABLE])
        assert consumer.settled(TABLE) == at(2)
    consumer.settle([TABLE])
    with pytest.raises(RetryableError, match="RPL-4422"):
        consumer.settled(TABLE)
    consumer.stop()
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [0, 1, 2, 3, 4]


def test_a_late_batch_that_leaves_alone_what_others_have_moved_is_committed_and_what_comes_next_finds_it(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MANY_SMALL_FILES", 1)
    consumer = started(lake)
    take(consumer, batch(1, [insert(row(key, "old")) for key in range(4)]))
    consumer.settle([TABLE])
    take(consumer, batch(2, [insert(row(4, "old"))]))
    with written_slowly(monkeypatch, consumer, batch(3, [delete({"id": 4}), insert(row(5, "new"))])):
        lake.maintain(TABLE, COMPACT)
        consumer.settle([TABLE])
    take(consumer, batch(4, [delete({"id": 5})]))
    consumer.settle([TABLE])
    take(consumer, batch(5, [delete({"id": 0}), update({"id": 1, "name": "new"})]))
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(5)
    consumer.stop()
    assert sorted((r["id"], r["name"]) for r in lake.rows(TABLE)) == [(1, "new"), (2, "old"), (3, "old")]
