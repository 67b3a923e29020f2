"""The mode `scd2`: a later copy ends what is gone, opens what differs and leaves the rest, and is seen when it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import INT32, INT64, STRING
from replicator_sdk.errors import RetryableError
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.others import foreign
from tests.plugins.targets.iceberg.versions.versions_warehouse import VersionsWarehouse
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.plugins.targets.snapshot_rows import SnapshotRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog

CHUNK = [SnapshotChunk(0, {})]
CHUNKS = [SnapshotChunk(0, {}), SnapshotChunk(1, {})]


@pytest.fixture
def lake(tmp_path: Path, iceberg_spark: SparkSession) -> VersionsWarehouse:
    return VersionsWarehouse(tmp_path / "lake", iceberg_spark)


def first_copy(lake: VersionsWarehouse) -> None:
    copied = [(1, "a", None), (2, "a", None), (3, "a", "n")]
    consumer = lake.consumer()
    consumer.begin_snapshot(KEYED, "first", at(1))
    consumer.load_chunks(KEYED, "first", CHUNK, SnapshotRows(KEYED, copied))
    consumer.finish_snapshot(KEYED, "first", at(1))


@pytest.mark.parametrize("settings", [{}, {"branch": "audit"}, {"formatVersion": 3}], ids=str)
def test_a_second_copy_ends_what_is_gone_opens_what_differs_and_leaves_the_rest(
    tmp_path: Path, iceberg_spark: SparkSession, settings: dict[str, Any]
) -> None:
    """In steps, interrupted between them, with maintenance beside it, and in one commit; the versions of before stay."""
    lake = VersionsWarehouse(tmp_path / "lake", iceberg_spark, snapshotsKept=10, **settings)
    first_copy(lake)
    assert lake.history("name") == [(1, 0, None, "a"), (2, 0, None, "a"), (3, 0, None, "a")]
    lake.consumer().apply_batch(batch(2, [update(row(1, "b"))]))
    second = lake.consumer(epoch=2)
    second.begin_snapshot(KEYED, "second", at(3))
    second.load_chunks(KEYED, "second", CHUNKS[:1], SnapshotRows(KEYED, [(1, "b", None), (4, "new", None)]))
    assert len(lake.history()) == 4, "nothing is seen of a copy that is not finished"
    third = lake.consumer(epoch=3)
    assert third.begin_snapshot(KEYED, "second", at(3)) == {0}
    for _ in range(12):
        foreign(lake, touches, TABLE)
    lake.maintain(TABLE, "expire", epoch=3)
    lake.maintain(TABLE, "compact", epoch=3)
    third.load_chunks(KEYED, "second", CHUNKS[1:], SnapshotRows(KEYED, [(3, "a", "other")]))
    third.finish_snapshot(KEYED, "second", at(3))
    found = [
        (1, 0, 2001, "a", None),
        (1, 2001, None, "b", None),
        (2, 0, 2002, "a", None),
        (3, 0, 2002, "a", "n"),
        (3, 2002, None, "a", "other"),
        (4, 2002, None, "new", None),
    ]
    assert lake.history("name", "note") == found
    assert not [name for name in lake.table(TABLE).metadata.refs if "copy" in name]
    rows = [(1, "b", None), (3, "a", "other")]
    third.load_whole(KEYED, "beside", at(4), CHUNK, SnapshotRows(KEYED, rows), lambda: None)
    found[-1] = (4, 2002, 2003, "new", None)
    assert lake.history("name", "note") == found
    third.apply_batch(batch(5, [update(row(3, "last"))], epoch=3))
    assert lake.history("name")[-2:] == [(3, 5001, None, "last"), (4, 2002, 2003, "new")]


def touches(table: Any, _: Catalog) -> None:
    """Another program commits."""
    table.newAppend().commit()


def test_the_file_of_a_copy_whose_rows_are_all_new_is_the_tables(lake: VersionsWarehouse) -> None:
    """It is not written again, and stays when the snapshots of the copy are gone."""
    first_copy(lake)
    consumer = lake.consumer(epoch=2)
    consumer.begin_snapshot(KEYED, "second", at(3))
    consumer.load_chunks(KEYED, "second", CHUNKS[:1], SnapshotRows(KEYED, [(key, "new", None) for key in range(8, 12)]))
    consumer.load_chunks(KEYED, "second", CHUNKS[1:], SnapshotRows(KEYED, [(1, "a", None), (3, "b", None)]))
    loaded = {path.name for path in (lake.folder / "shop" / "customers" / "data").glob("*.parquet")}
    consumer.finish_snapshot(KEYED, "second", at(3))
    now = {task.file.file_path.rpartition("/")[2] for task in lake.table(TABLE).scan().plan_files()}
    assert len(now & loaded) == 2, "the table's own file, and that of the new rows"
    seen = lake.history("name")
    foreign(lake, expires_all, TABLE)
    assert lake.history("name") == seen


def expires_all(table: Any, _: Catalog) -> None:
    """Another program has every snapshot expired but the current ones, and deletes what no other needs."""
    table.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()


def test_a_copy_of_another_plan_begins_from_scratch(lake: VersionsWarehouse) -> None:
    first_copy(lake)
    consumer = lake.consumer(epoch=2)
    consumer.begin_snapshot(KEYED, "second", at(3))
    consumer.load_chunks(KEYED, "second", CHUNK, SnapshotRows(KEYED, [(9, "of the plan that is given up", None)]))
    assert consumer.begin_snapshot(KEYED, "third", at(4)) == set()
    consumer.load_chunks(KEYED, "third", CHUNK, SnapshotRows(KEYED, [(1, "a", None), (2, "a", None)]))
    consumer.finish_snapshot(KEYED, "third", at(4))
    assert [one[:1] + one[3:] for one in lake.history("name") if one[2] is None] == [(1, "a"), (2, "a")]


def test_a_first_copy_that_was_interrupted_begins_from_scratch_under_another_plan(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.begin_snapshot(KEYED, "first", at(1))
    consumer.load_chunks(KEYED, "first", CHUNK, SnapshotRows(KEYED, [(1, "a", None), (2, "a", None)]))
    assert consumer.begin_snapshot(KEYED, "second", at(2)) == set()
    consumer.load_chunks(KEYED, "second", CHUNK, SnapshotRows(KEYED, [(2, "b", None)]))
    consumer.finish_snapshot(KEYED, "second", at(2))
    assert lake.history("name") == [(2, 0, None, "b")]


@pytest.mark.parametrize("changed", [True, False])
def test_a_copy_whose_branch_another_program_drops_begins_again(lake: VersionsWarehouse, *, changed: bool) -> None:
    first_copy(lake)
    consumer = lake.consumer(epoch=2)
    if changed:
        consumer.apply_batch(batch(2, [update(row(1, "b"))], epoch=2))
    consumer.begin_snapshot(KEYED, "second", at(3))
    consumer.load_chunks(KEYED, "second", CHUNKS[:1], SnapshotRows(KEYED, [(1, "c", None)]))
    foreign(lake, drops_the_copy, TABLE)
    with pytest.raises(RetryableError) as raised:
        consumer.load_chunks(KEYED, "second", CHUNKS[1:], SnapshotRows(KEYED, [(2, "c", None)]))
    assert raised.value.code == "RPL-4430"
    again = lake.consumer(epoch=3)
    assert again.begin_snapshot(KEYED, "second", at(3)) == set()
    again.load_chunks(KEYED, "second", CHUNK, SnapshotRows(KEYED, [(1, "d", None)]))
    again.finish_snapshot(KEYED, "second", at(3))
    assert [one[0:1] + one[3:] for one in lake.history("name") if one[2] is None] == [(1, "d")]
    assert len(lake.history()) == (5 if changed else 4)


def drops_the_copy(table: Any, _: Catalog) -> None:
    table.manageSnapshots().removeBranch("replicator.copy").commit()


def test_a_table_that_is_rolled_back_while_it_is_copied_has_no_row_twice(lake: VersionsWarehouse) -> None:
    """The table then says that fewer chunks are in than the branch of the copy has."""
    first_copy(lake)
    consumer = lake.consumer(epoch=2)
    consumer.begin_snapshot(KEYED, "second", at(3))
    begun = lake.table(TABLE).metadata.current_snapshot_id
    consumer.load_chunks(KEYED, "second", CHUNKS[:1], SnapshotRows(KEYED, [(1, "new", None)]))
    foreign(lake, lambda table, _: table.manageSnapshots().rollbackTo(begun).commit(), TABLE)
    again = lake.consumer(epoch=3)
    assert again.begin_snapshot(KEYED, "second", at(3)) == set()
    for chunk, rows in zip(CHUNKS, ([(1, "new", None)], [(2, "a", None)]), strict=True):
        again.load_chunks(KEYED, "second", [chunk], SnapshotRows(KEYED, rows))
    again.finish_snapshot(KEYED, "second", at(3))
    assert [one[0:1] + one[3:] for one in lake.history("name") if one[2] is None] == [(1, "new"), (2, "a")]


@pytest.mark.parametrize("ends", ["discarded", "other mode", "rewound"])
def test_a_copy_that_is_given_up_leaves_no_branch(
    tmp_path: Path, iceberg_spark: SparkSession, lake: VersionsWarehouse, ends: str
) -> None:
    """Neither expiry nor a search for orphans may touch the files of one."""
    first_copy(lake)
    consumer = lake.consumer(epoch=2)
    consumer.begin_snapshot(KEYED, "second", at(3))
    consumer.load_chunks(KEYED, "second", CHUNKS[:1], SnapshotRows(KEYED, [(1, "new", None)]))
    consumer.discard_snapshot(TABLE, "another")
    assert "replicator.copy" in lake.table(TABLE).metadata.refs
    if ends == "discarded":
        for _ in range(2):
            consumer.discard_snapshot(TABLE, "second")
    elif ends == "rewound":
        consumer.rewind_table(TABLE, at(1))
    else:
        rows = SnapshotRows(KEYED, [(1, "new", None)])
        merged = Warehouse(tmp_path / "lake", iceberg_spark).consumer(epoch=3)
        merged.load_whole(KEYED, "third", at(4), CHUNK, rows, lambda: None)
    assert "replicator.copy" not in lake.table(TABLE).metadata.refs


@pytest.mark.parametrize("beside", [True, False])
def test_a_copy_under_a_wider_type_keeps_the_values_of_before(lake: VersionsWarehouse, *, beside: bool) -> None:
    narrow = TableSchema(TABLE, (KEYED["id"], KEYED["name"], Column("n", INT32)), ("id",))
    wide = TableSchema(TABLE, (KEYED["id"], KEYED["name"], Column("n", INT64)), ("id",))
    consumer = lake.consumer()
    consumer.apply_batch(
        batch(1, [insert({"id": 1, "name": "a", "n": 5}, narrow), insert({"id": 2, "name": "a", "n": 6}, narrow)])
    )
    rows = SnapshotRows(wide, [(1, "a", 5), (2, "a", 2**40)])
    if beside:
        consumer.load_whole(wide, "plan", at(3), CHUNK, rows, lambda: None)
    else:
        consumer.begin_snapshot(wide, "plan", at(3))
        consumer.load_chunks(wide, "plan", CHUNK, rows)
        consumer.finish_snapshot(wide, "plan", at(3))
    assert [one[3] for one in lake.history("n")] == [5, 6, 2**40]


@pytest.mark.parametrize("beside", [True, False])
def test_a_copy_with_other_columns_keeps_the_history(lake: VersionsWarehouse, *, beside: bool) -> None:
    """A column of the same name and type keeps its values."""
    other = TableSchema(TABLE, (KEYED["id"], KEYED["name"], Column("city", STRING)), ("id",))
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), update(row(1, "b", "n")), insert(row(2, "a"))]))
    consumer.apply_batch(batch(2, [delete(row(2, "a"))]))
    rows = SnapshotRows(other, [(1, "b", "Rome"), (3, "c", "Bern")])
    if beside:
        consumer.load_whole(other, "plan", at(3), CHUNK, rows, lambda: None)
    else:
        consumer.begin_snapshot(other, "plan", at(3))
        consumer.load_chunks(other, "plan", CHUNK, rows)
        consumer.finish_snapshot(other, "plan", at(3))
    assert lake.history("name", "city") == [
        (1, 1001, 1002, "a", None),
        (1, 1002, 2002, "b", None),
        (1, 2002, None, "b", "Rome"),
        (2, 1003, 2001, "a", None),
        (3, 2002, None, "c", "Bern"),
    ]
    assert "note" not in lake.versions()[0]
