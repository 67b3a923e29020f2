"""A table goes back to an earlier snapshot in one commit of this run: rows, columns and progress; read by `pyiceberg`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.target import EarlierVersion
from replicator_target_iceberg.apply.keyed import KeyedApply
from replicator_target_iceberg.log.branch import tag_of
from replicator_target_iceberg.log.change import Change
from replicator_target_iceberg.table import TargetTable
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.others import compacts, expires, foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog

WIDER = TableSchema(TABLE, (*KEYED.columns, Column("city", STRING)), ("id",))
ADDED = Alter(AlterKind.ADD_COLUMN, WIDER["city"], default="Rome")


@pytest.fixture(params=[("hadoop", 2)], ids=["hadoop-2"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    """An empty warehouse of a format, in a catalog."""
    catalog_type, version = request.param
    return Warehouse(tmp_path / "lake", iceberg_spark, catalog_type, formatVersion=version)


def partitions_by_city(table: Any, _: Catalog) -> None:
    """By a column that the source has added."""
    table.updateSpec().addField("city").commit()


def sorts_by_city(table: Any, catalog: Catalog) -> None:
    """The same."""
    table.replaceSortOrder().asc(
        catalog.jvm[".expressions.Expressions"].ref("city"), catalog.jvm[".NullOrder"].NULLS_FIRST
    ).commit()


both = pytest.mark.parametrize("lake", [("hadoop", 2), ("jdbc", 3)], ids=["hadoop-2", "jdbc-3"], indirect=True)


def some_history(lake: Warehouse, *, epoch: int = 1, since: int = 0) -> list[dict[str, Any]]:
    """Batches, a column and an emptied table; returns the rows after the second batch."""
    then: list[dict[str, Any]] = []
    consumer = lake.consumer(epoch=epoch)
    if since < 2:
        consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(1, 9)], epoch=epoch))
        consumer.apply_batch(batch(2, [delete(row(1, "a")), update(row(2, "b"))], epoch=epoch))
        then = in_order(lake.rows(TABLE))
    consumer.apply_batch(batch(3, [delete(row(3, "a")), insert(row(1, "again"))], epoch=epoch))
    consumer.apply_ddl(alter(4, WIDER, ADDED))
    consumer.apply_batch(batch(5, [insert({**row(9), "city": "Oslo"}, WIDER)], epoch=epoch))
    consumer.apply_ddl(ddl(6, DDLOperation.TRUNCATE_TABLE, WIDER))
    consumer.apply_batch(batch(7, [insert({**row(10), "city": "Bonn"}, WIDER)], epoch=epoch))
    consumer.stop()
    return then


def found(lake: Warehouse, position: int, epoch: int = 2) -> EarlierVersion | None:
    return lake.consumer(epoch=epoch).find_version(TABLE, at(position))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda one: str(one["id"]))


@both
def test_rows_columns_and_progress_are_those_of_the_snapshot(lake: Warehouse) -> None:
    then = some_history(lake)
    version = found(lake, 2)
    assert version is not None
    assert version.progress is not None
    assert (version.progress.position, version.following.position) == (at(2), at(3))
    assert (version.rows_now, version.rows_then) == (1, 7)
    before = len(lake.summaries(TABLE))
    progress = lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert progress is not None
    assert (progress.position, progress.epoch) == (at(2), 2)
    assert in_order(lake.rows(TABLE)) == then
    assert len(lake.summaries(TABLE)) == before + 1
    table = lake.table(TABLE)
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.schema_id == table.schema().schema_id
    assert table.metadata.refs[tag_of("main")].snapshot_id == newest.snapshot_id
    assert lake.consumer(epoch=2).progress(TABLE) == progress


@both
def test_the_log_applied_again_makes_the_table_what_it_was(lake: Warehouse) -> None:
    some_history(lake)
    end = lake.rows(TABLE)
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    some_history(lake, epoch=3, since=2)
    assert lake.rows(TABLE) == end
    lake.consumer(epoch=4).rewind_table(TABLE, at(4))
    assert {one["city"] for one in lake.rows(TABLE)} == {"Rome"}, "not the columns of the time before the rewind"


def test_a_table_that_is_not_after_the_position_stays_also_at_a_second_call(lake: Warehouse) -> None:
    some_history(lake)
    assert found(lake, 7) is None
    assert lake.consumer(epoch=2).find_version(KEYLESS.table, at(1)) is None
    assert lake.consumer(epoch=2).rewind_table(KEYLESS.table, at(1)) is None
    first = lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    before = len(lake.summaries(TABLE))
    assert lake.consumer(epoch=3).rewind_table(TABLE, at(2)) == first
    assert found(lake, 2, epoch=3) is None
    assert len(lake.summaries(TABLE)) == before


def test_a_later_rewind_goes_back_further_than_an_earlier_one(lake: Warehouse) -> None:
    some_history(lake)
    lake.consumer(epoch=2).rewind_table(TABLE, at(5))
    assert {one["id"] for one in lake.rows(TABLE)} == {1, 2, 4, 5, 6, 7, 8, 9}
    lake.consumer(epoch=3).rewind_table(TABLE, at(1))
    assert {one["id"]: one["name"] for one in lake.rows(TABLE)} == dict.fromkeys(range(1, 9), "a")


def test_maintenance_before_and_after_changes_nothing_of_it(lake: Warehouse) -> None:
    consumer = lake.consumer()
    for place in range(1, 12):
        consumer.apply_batch(batch(place, [insert(row(place, "a"))]))
    lake.maintain(TABLE, "compact")
    consumer.stop()
    lake.consumer(epoch=2).rewind_table(TABLE, at(10))
    assert {one["id"] for one in lake.rows(TABLE)} == set(range(1, 11))
    lake.maintain(TABLE, "compact", epoch=2)
    lake.maintain(TABLE, "expire", epoch=2)
    assert {one["id"] for one in lake.rows(TABLE)} == set(range(1, 11))


def test_another_programs_commit_belongs_to_the_snapshot_before_it(lake: Warehouse) -> None:
    """It holds the same rows in other files, which are those that later batches build on."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    foreign(lake, compacts)
    [*_, theirs] = lake.table(TABLE).snapshots()
    consumer.stop()
    again = lake.consumer()
    again.apply_batch(batch(2, [insert(row(2, "a"))]))
    again.stop()
    version = found(lake, 1)
    assert version is not None
    assert version.name == f"snapshot {theirs.snapshot_id}"
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert [one["id"] for one in lake.rows(TABLE)] == [1]


def test_before_its_first_snapshot_there_was_no_table(lake: Warehouse) -> None:
    some_history(lake)
    version = found(lake, 0)
    assert version is not None
    assert version.progress is None
    with pytest.raises(NeedsUserError, match="RPL-3441"):
        lake.consumer(epoch=2).rewind_table(TABLE, at(0))


def test_a_snapshot_whose_files_were_deleted_is_refused_and_nothing_is_changed(lake: Warehouse) -> None:
    some_history(lake)
    kept = {Path(task.file.file_path.removeprefix("file:")) for task in lake.table(TABLE).scan().plan_files()}
    gone = set(lake.folder.glob("**/data/*.parquet")) - kept
    assert gone
    for file in gone:
        file.unlink()
    _assert_refused(lake)


def test_an_expired_snapshot_is_refused_and_nothing_is_changed(lake: Warehouse) -> None:
    some_history(lake)
    foreign(lake, expires)
    _assert_refused(lake)


def test_a_snapshot_whose_manifests_were_deleted_is_refused_and_nothing_is_changed(lake: Warehouse) -> None:
    some_history(lake)
    [*_, newest] = lake.table(TABLE).snapshots()
    for snapshot in lake.table(TABLE).snapshots():
        if snapshot.snapshot_id != newest.snapshot_id:
            Path(snapshot.manifest_list.removeprefix("file:")).unlink()
    _assert_refused(lake)


def test_after_a_failure_of_the_storage_it_is_tried_again(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of whether the files are there: no copy of the table is advised."""
    some_history(lake)
    before, rows = lake.summaries(TABLE), lake.rows(TABLE)

    def fails(*_: object) -> Any:
        raise RetryableError("the storage failed to list files", code="RPL-4420")

    for owner, name in ((TargetTable, "locations"), (Change, "append")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails)
            with pytest.raises(RetryableError, match="RPL-4420"):
                lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert (lake.summaries(TABLE), lake.rows(TABLE)) == (before, rows)
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert len(lake.rows(TABLE)) == 7


@pytest.mark.parametrize("arrange", [partitions_by_city, sorts_by_city])
def test_partitions_and_order_of_a_column_that_came_later_are_refused_and_nothing_is_changed(
    lake: Warehouse, arrange: Callable[[Any, Catalog], None]
) -> None:
    """Another program has arranged the table so; without the column no one could write it."""
    some_history(lake)
    foreign(lake, arrange)
    _assert_refused(lake)
    lake.consumer(epoch=2).rewind_table(TABLE, at(5))
    again = lake.consumer(epoch=2)
    again.apply_batch(batch(8, [insert({**row(12), "city": "Bern"}, WIDER)], epoch=2))
    assert 12 in {one["id"] for one in lake.rows(TABLE)}


def test_expiry_of_the_later_snapshots_leaves_the_rows_that_came_back(lake: Warehouse) -> None:
    """Their files are those of a snapshot before the ones that expire."""
    then = some_history(lake)
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    foreign(lake, expires)
    assert len(lake.summaries(TABLE)) == 1
    assert in_order(lake.rows(TABLE)) == then
    some_history(lake, epoch=3, since=2)
    assert [one["id"] for one in lake.rows(TABLE)] == [10]


def _assert_refused(lake: Warehouse) -> None:
    before, rows = lake.summaries(TABLE), lake.rows(TABLE)
    with pytest.raises(NeedsUserError, match="RPL-3441"):
        found(lake, 2)
    with pytest.raises(NeedsUserError, match="RPL-3441"):
        lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert (lake.summaries(TABLE), lake.rows(TABLE)) == (before, rows)


def test_a_zombie_that_wakes_up_afterwards_writes_nothing(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has written its files already, and read the table before."""
    some_history(lake)
    zombie = lake.consumer(epoch=1)
    assert zombie.progress(TABLE) is not None
    written = KeyedApply.run

    def meanwhile(self: KeyedApply) -> object:
        monkeypatch.setattr(KeyedApply, "run", written)
        files = written(self)
        lake.consumer(epoch=2).rewind_table(TABLE, at(2))
        return files

    monkeypatch.setattr(KeyedApply, "run", meanwhile)
    with pytest.raises(ReplicatorError) as error:
        zombie.apply_batch(batch(8, [insert({**row(11), "city": "late"}, WIDER)]))
    assert isinstance(error.value, FencedError | RetryableError)
    rows = lake.rows(TABLE)
    assert 11 not in {one["id"] for one in rows}
    with pytest.raises(FencedError, match="RPL-8420"):
        zombie.apply_batch(batch(8, [insert({**row(11), "city": "late"}, WIDER)]))
    with pytest.raises(FencedError, match="RPL-8420"):
        lake.consumer(epoch=1).rewind_table(TABLE, at(1))
    assert lake.rows(TABLE) == rows


def test_a_history_of_changes_goes_back_too(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, mode="append")
    some_history(lake)
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert [one["_op"] for one in lake.rows(TABLE)].count("I") == 8
    assert "city" not in lake.table(TABLE).schema().column_names
