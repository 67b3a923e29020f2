"""Commits go to the branch of the settings, and how far a table is comes from there; read by `pyiceberg` and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.config import CatalogType
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, alter, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.others import compacts, compacts_and_expires, foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog

WIDER = TableSchema(TABLE, (*KEYED.columns, Column("city", STRING)), ("id",))
ADDED = Alter(AlterKind.ADD_COLUMN, WIDER["city"], default="Rome")


@pytest.fixture(params=[CatalogType.HADOOP], ids=str)
def lake(request: pytest.FixtureRequest, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    """A warehouse whose tables get their commits on the branch `audit`."""
    return Warehouse(tmp_path / "lake", iceberg_spark, request.param, branch="audit")


every_catalog = pytest.mark.parametrize("lake", [CatalogType.HADOOP, CatalogType.JDBC], ids=str, indirect=True)


def beside(lake: Warehouse, spark: SparkSession, **settings: Any) -> Warehouse:
    """The same warehouse by other settings."""
    return Warehouse(lake.folder, spark, lake.config.catalog_type, **settings)


def ids(lake: Warehouse) -> list[int]:
    return sorted(one["id"] for one in lake.rows(TABLE))


def write(lake: Warehouse, *places: int, epoch: int = 1) -> None:
    """At each place of the log a row of that key."""
    consumer = lake.consumer(epoch=epoch)
    for place in places:
        consumer.apply_batch(batch(place, [insert(row(place, "a"))], epoch=epoch))
    consumer.stop()


def fast_forwards(table: Any, _: Catalog) -> None:
    """Publishes the branch."""
    table.manageSnapshots().fastForwardBranch("main", "audit").commit()


def drops_branch(table: Any, _: Catalog) -> None:
    table.manageSnapshots().removeBranch("audit").commit()


@every_catalog
def test_rows_and_columns_reach_the_branch_and_main_stays_empty(lake: Warehouse, iceberg_spark: SparkSession) -> None:
    write(lake, 1, 2, 3)
    consumer = lake.consumer()
    consumer.apply_batch(batch(4, [delete(row(1, "a")), update(row(2, "b"))]))
    consumer.apply_ddl(alter(5, WIDER, ADDED))
    consumer.stop()
    wanted = [{**row(2, "b"), "city": "Rome"}, {**row(3, "a"), "city": "Rome"}]
    assert sorted(lake.rows(TABLE), key=lambda one: int(one["id"])) == wanted
    table = lake.table(TABLE)
    assert "main" not in table.metadata.refs
    assert table.metadata.refs["replicator-audit"].snapshot_id == table.metadata.refs["audit"].snapshot_id
    assert by_spark(lake, iceberg_spark, "VERSION AS OF 'audit'") == [tuple(one.values()) for one in wanted]
    assert by_spark(lake, iceberg_spark) == []


def by_spark(lake: Warehouse, spark: SparkSession, version: str = "") -> list[tuple[Any, ...]]:
    """The rows as Spark's own SQL has them."""
    session = spark.newSession()  # which has no catalog of that name yet
    session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    for key, value in lake.config.properties().items():
        session.conf.set(f"spark.sql.catalog.lake.{key}", value)
    rows = session.sql(f"SELECT * FROM lake.{identifier(TABLE)} {version} ORDER BY id").collect()
    return [tuple(one) for one in rows]


@every_catalog
def test_a_missing_branch_begins_from_main_and_main_stays_as_it_is(
    lake: Warehouse, iceberg_spark: SparkSession
) -> None:
    main = beside(lake, iceberg_spark)
    write(main, 1, 2)
    consumer = lake.consumer(epoch=2)
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(2)
    consumer.apply_batch(batch(2, [insert(row(2, "again"))], epoch=2))
    assert "audit" not in lake.table(TABLE).metadata.refs, "the batch was there already"
    consumer.apply_batch(batch(3, [insert(row(3)), delete(row(1))], epoch=2))
    consumer.stop()
    assert (ids(lake), ids(main)) == ([2, 3], [1, 2])
    write(lake, 4, epoch=3)
    assert (ids(lake), ids(main)) == ([2, 3, 4], [1, 2])


def test_how_far_a_table_is_comes_from_its_branch_and_never_from_main(
    lake: Warehouse, iceberg_spark: SparkSession
) -> None:
    """Others commit to `main`, also with a record of this replicator's that is further."""
    write(lake, 1)
    foreign(lake, fast_forwards)
    write(beside(lake, iceberg_spark), 2, 3, epoch=7)
    consumer = lake.consumer(epoch=2)
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert (progress.position, progress.epoch) == (at(1), 1)
    consumer.apply_batch(batch(2, [insert(row(2, "mine"))], epoch=2))
    consumer.stop()
    assert {one["id"]: one["name"] for one in lake.rows(TABLE)} == {1: "a", 2: "mine"}


def test_main_that_is_fast_forwarded_changes_nothing(lake: Warehouse, iceberg_spark: SparkSession) -> None:
    main = beside(lake, iceberg_spark)
    write(lake, 1, 2)
    foreign(lake, fast_forwards)
    consumer = lake.consumer()
    consumer.apply_batch(batch(3, [insert(row(3)), delete(row(1, "a"))]))
    foreign(lake, fast_forwards)
    consumer.apply_batch(batch(4, [update(row(3, "late"))]))
    consumer.stop()
    assert (ids(lake), ids(main)) == ([2, 3], [2, 3])
    assert {one["id"]: one["name"] for one in main.rows(TABLE)} == {2: "a", 3: None}


def test_a_branch_that_was_dropped_once_main_had_it_begins_again_from_main(lake: Warehouse) -> None:
    write(lake, 1, 2)
    foreign(lake, fast_forwards)
    foreign(lake, drops_branch)
    write(lake, 3)
    assert ids(lake) == [1, 2, 3]
    assert lake.main_rows(TABLE) == 2


def stops(lake: Warehouse) -> NeedsUserError:
    """The error of a table whose branch does not have its last commits; whatever asks for it gets the same."""
    before = lake.summaries(TABLE)
    consumer = lake.consumer(epoch=2)
    with pytest.raises(NeedsUserError, match="RPL-3442") as error:
        consumer.progress(TABLE)
    with pytest.raises(NeedsUserError, match="RPL-3442"):
        consumer.apply_batch(batch(9, [insert(row(9))], epoch=2))
    reader = lake.target.create_table_reader(lake.context(epoch=2))
    assert reader is not None
    with pytest.raises(NeedsUserError, match="RPL-3442"):
        reader.open(KEYED)
    for task in ("compact", "expire"):
        with pytest.raises(NeedsUserError, match="RPL-3442"):
            lake.maintain(TABLE, task, epoch=2)
    consumer.stop()
    assert lake.summaries(TABLE) == before
    return error.value


@pytest.mark.parametrize("published", [True, False])
def test_a_branch_that_was_dropped_with_rows_which_main_lacks_stops_the_table(
    lake: Warehouse, iceberg_spark: SparkSession, *, published: bool
) -> None:
    """The rows of `main` are older: changes between the two are in no replay."""
    write(lake, 1)
    if published:
        foreign(lake, fast_forwards)
    write(lake, 2)
    foreign(lake, drops_branch)
    found = stops(lake)
    number = lake.table(TABLE).metadata.refs["replicator-audit"].snapshot_id
    assert str(number) in found.hint
    foreign(lake, lambda table, _: table.manageSnapshots().createBranch("audit", number).commit())
    write(lake, 3, epoch=2)
    assert ids(lake) == [1, 2, 3]


def test_a_branch_that_is_dropped_during_a_run_stops_the_table(lake: Warehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    foreign(lake, drops_branch)
    with pytest.raises(NeedsUserError, match="RPL-3442"):
        consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.stop()


@pytest.mark.parametrize("wanted", ["main", "other"])
def test_another_branch_in_the_settings_stops_tables_of_which_main_has_nothing(
    lake: Warehouse, iceberg_spark: SparkSession, wanted: str
) -> None:
    write(lake, 1)
    other = beside(lake, iceberg_spark, branch=wanted)
    stops(other)
    foreign(lake, fast_forwards)
    write(other, 2, epoch=2)
    assert (ids(lake), ids(other)) == ([1], [1, 2])


def test_a_copy_makes_a_table_whole_whose_branch_is_gone(lake: Warehouse) -> None:
    """`table resync` begins so."""
    write(lake, 1, 2)
    foreign(lake, drops_branch)
    consumer = lake.consumer(epoch=2)
    consumer.begin_snapshot(KEYED, "again", at(5))
    consumer.finish_snapshot(KEYED, "again", at(5))
    consumer.stop()
    write(lake, 6, epoch=2)
    assert ids(lake) == [6]


def test_a_copy_with_other_columns_leaves_main_the_values_of_those_that_stay(
    lake: Warehouse, iceberg_spark: SparkSession
) -> None:
    """Columns are the table's, for all branches."""
    write(lake, 1)
    foreign(lake, fast_forwards)
    retyped = TableSchema(TABLE, (Column("id", INT64), Column("note", INT64), Column("name", STRING)), ("id",))
    consumer = lake.consumer()
    consumer.begin_snapshot(retyped, "again", at(5))
    consumer.finish_snapshot(retyped, "again", at(5))
    consumer.apply_batch(batch(6, [insert({"id": 2, "name": "b", "note": 7}, retyped)]))
    consumer.stop()
    assert lake.rows(TABLE) == [{"id": 2, "name": "b", "note": 7}]
    [kept] = beside(lake, iceberg_spark).table(TABLE).scan(selected_fields=("id", "name")).to_arrow().to_pylist()
    assert kept == {"id": 1, "name": "a"}


def test_a_tag_of_that_name_is_refused(lake: Warehouse, iceberg_spark: SparkSession) -> None:
    write(beside(lake, iceberg_spark), 1)
    foreign(
        lake,
        lambda table, _: table.manageSnapshots().createTag("audit", table.currentSnapshot().snapshotId()).commit(),
    )
    consumer = lake.consumer(epoch=2)
    with pytest.raises(NeedsUserError, match="RPL-3443"):
        consumer.apply_batch(batch(2, [insert(row(2))], epoch=2))
    consumer.stop()


def test_a_table_with_rows_in_main_is_not_deleted_with_its_branch(lake: Warehouse) -> None:
    write(lake, 1)
    foreign(lake, fast_forwards)
    consumer = lake.consumer()
    assert "main" in consumer.delete_table(TABLE)
    assert ids(lake) == [1]
    consumer.apply_batch(batch(2, [insert({"name": "x", "number": 1}, KEYLESS)]))
    assert consumer.delete_table(KEYLESS.table) == "", "main has nothing of it"
    assert lake.tables() == [TABLE]
    consumer.stop()


def test_compaction_and_expiry_are_of_the_branch(lake: Warehouse, iceberg_spark: SparkSession) -> None:
    """What only `main` builds on stays, however old it is."""
    lake = beside(lake, iceberg_spark, branch="audit", snapshotsKept=10)
    main = beside(lake, iceberg_spark)
    write(lake, 1)
    foreign(lake, fast_forwards)
    foreign(lake, compacts)
    foreign(lake, compacts)
    theirs = main.table(TABLE).metadata.refs["main"].snapshot_id
    consumer = lake.consumer()
    for place in range(2, 14):
        consumer.apply_batch(batch(place, [insert(row(place)), *([delete(row(1))] if place == 2 else [])]))
    assert lake.maintain(TABLE, "compact").files_after == 1
    assert ids(lake) == list(range(2, 14))
    lake.maintain(TABLE, "expire")
    assert lake.maintain(TABLE, "expire").has_changed is False
    left = lake.table(TABLE)
    number, chain = left.metadata.refs["audit"].snapshot_id, 0
    while (found := left.snapshot_by_id(number)) is not None and found.parent_snapshot_id is not None:
        number, chain = found.parent_snapshot_id, chain + 1
    assert chain in {9, 10}
    assert left.metadata.refs["main"].snapshot_id == theirs
    assert len(left.snapshots()) == 12, "ten of the branch, and the two that others made of main"
    assert (ids(lake), ids(main)) == (list(range(2, 14)), [1])
    consumer.apply_batch(batch(14, [insert(row(14)), delete(row(5))]))
    consumer.stop()
    assert ids(lake) == [2, 3, 4, *range(6, 15)]


def compacts_branch(table: Any, _: Catalog) -> None:
    """As `compacts`."""
    table.newAppend().toBranch("audit").commit()


def test_commits_of_others_on_the_branch_are_followed(lake: Warehouse) -> None:
    write(lake, 1)
    foreign(lake, compacts_branch)
    lake.maintain(TABLE, "expire")
    foreign(lake, compacts_branch)
    foreign(lake, compacts_and_expires)
    write(lake, 2)
    assert ids(lake) == [1, 2]


def test_a_branch_goes_back_to_an_earlier_snapshot_of_its_own(lake: Warehouse) -> None:
    write(lake, 1, 2)
    foreign(lake, fast_forwards)
    write(lake, 3)
    consumer = lake.consumer()
    consumer.apply_ddl(alter(4, WIDER, ADDED))
    consumer.stop()
    progress = lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert progress is not None
    assert (progress.position, progress.epoch) == (at(1), 2)
    assert lake.rows(TABLE) == [row(1, "a")]
    assert lake.main_rows(TABLE) == 2
    write(lake, 2, 3, epoch=3)
    assert ids(lake) == [1, 2, 3]


def test_a_branch_that_is_missing_can_begin_by_going_back(lake: Warehouse, iceberg_spark: SparkSession) -> None:
    main = beside(lake, iceberg_spark)
    write(main, 1, 2, 3)
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert (ids(lake), ids(main)) == ([1, 2], [1, 2, 3])


def test_rows_are_compared_and_repaired_on_the_branch(lake: Warehouse, iceberg_spark: SparkSession) -> None:
    write(lake, 1, 2)
    foreign(lake, fast_forwards)
    write(lake, 3)
    with_reader = lake.target.create_table_reader(lake.context())
    assert with_reader is not None
    assert sorted(one["id"] for one in with_reader.open(KEYED).rows.collect()) == [1, 2, 3]
    consumer = lake.consumer()
    repaired = batch(3, [update(row(3, "right"))])
    consumer.repair_rows(repaired)
    consumer.stop()
    assert {one["id"]: one["name"] for one in lake.rows(TABLE)} == {1: "a", 2: "a", 3: "right"}
    assert lake.main_rows(TABLE) == 2
