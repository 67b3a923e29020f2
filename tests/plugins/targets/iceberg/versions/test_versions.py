"""The mode `scd2`: which versions follow from changes, changes of structure, repairs and rewinds, read by `pyiceberg`."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import DataError, NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.histories.reference import RowChange
from replicator_target_iceberg.table_reader import IcebergTableReader
from tests.depth import some
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.coordinator.lakes import ONCE_AN_HOUR, started, take
from tests.plugins.targets.iceberg.others import foreign
from tests.plugins.targets.iceberg.versions.versions_warehouse import VersionsWarehouse
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.plugins.targets.snapshot_rows import SnapshotRows
from tests.plugins.targets.version_model import VersionsModel, counted, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog

THEN = datetime.fromtimestamp(1_700_000_000, UTC)
CHUNK = [SnapshotChunk(0, {})]


@pytest.fixture
def lake(tmp_path: Path, iceberg_spark: SparkSession) -> VersionsWarehouse:
    return VersionsWarehouse(tmp_path / "lake", iceberg_spark)


@pytest.mark.parametrize("version", [2, 3])
def test_every_change_is_a_version_and_a_replay_adds_none(
    tmp_path: Path, iceberg_spark: SparkSession, version: int
) -> None:
    lake = VersionsWarehouse(tmp_path / "lake", iceberg_spark, formatVersion=version)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a", "kept")), update(row(1, "b"))]))
    later = [update({"id": 2, "name": "b"}), update({"id": 3, "name": "c"}, before={"id": 2}), delete(row(1, "b"))]
    for run in (1, 1, 2):
        lake.consumer(epoch=run).apply_batch(batch(2, later, epoch=run))
    assert lake.history("name", "note", "_is_current") == [
        (1, 1001, 1003, "a", None, False),
        (1, 1003, 2003, "b", None, False),
        (2, 1002, 2001, "a", "kept", False),
        (2, 2001, 2002, "b", "kept", False),
        (3, 2002, None, "c", "kept", True),
    ]
    assert {one["_valid_from"] for one in lake.versions()} == {THEN}
    assert {one["_source_timestamp"] for one in lake.versions()} == {THEN}


def test_an_update_whose_former_row_is_gone_is_an_error_and_a_delete_is_counted(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(DataError) as raised:
        consumer.apply_batch(batch(2, [update({"id": 9, "name": "b"})]))
    assert raised.value.code == "RPL-5421"
    consumer.apply_batch(batch(2, [delete(row(9))]))
    assert lake.history() == [(1, 1001, None)]


@pytest.mark.parametrize("seed", some(range(4), 1, name="histories of versions"))
def test_random_batches_have_the_versions_of_the_model(lake: VersionsWarehouse, seed: int) -> None:
    """Numbers and times may be lower than before; another program's compaction puts current and ended versions into one file."""
    chance, model, consumer = random.Random(seed), VersionsModel(), lake.consumer()
    for position in range(1, 16):
        changes: list[RowChange] = []
        there = set(model.current)
        for place in range(chance.randint(1, 5)):
            key, name = chance.randrange(6), f"{position}.{place}"
            free = [other for other in range(6) if other not in there]
            if key not in there:
                changes.append(insert(row(key, name)))
                there.add(key)
            elif chance.random() < 0.3:
                changes.append(delete({"id": key}))
                there.remove(key)
            elif free and chance.random() < 0.3:
                changes.append(update(row(free[0], name), before={"id": key}))
                there = (there - {key}) | {free[0]}
            else:
                changes.append(update({"id": key, "name": name}))
        time = chance.randint(0, 100) + 10 * position
        before = consumer.progress(TABLE)
        highest = 0 if before is None else before.last_sequence
        made = timed(position, changes, *[time] * len(changes))
        first = chance.choice([1, 1000 * position + 1])
        (only,) = made.batches()
        only.sequence_numbers[:] = range(first, first + len(changes))  # type: ignore[index]
        made.identity = type(made.identity)(1, 1, first, first + len(changes) - 1, at(position))
        consumer.apply_batch(made)
        added = max(0, highest + 1 - first)
        model.apply([(change, first + place + added, time) for place, change in enumerate(changes)])
        if chance.random() < 0.25:
            lake.maintain(TABLE, "compact")
        if chance.random() < 0.15:
            foreign(lake, rewrites_all, TABLE)
        found = [{name: one[name] for name in one if name != "_source_timestamp"} for one in lake.versions()]
        assert counted(found) == counted([version.columns() for version in model.versions])


def rewrites_all(table: Any, catalog: Catalog) -> None:
    """Spark puts all rows into files of its own, current versions and ended ones together."""
    actions = catalog.jvm[".spark.actions.SparkActions"].get()
    actions.rewriteDataFiles(table).option("rewrite-all", "true").execute()


def test_batches_of_one_commit_end_each_others_versions(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    """A version that one batch opens and the next one ends is in a file that no snapshot names yet."""
    lake = VersionsWarehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR)
    consumer = started(lake)
    take(consumer, batch(1, [insert(row(1, "a", "kept")), insert(row(2, "a"))]))
    take(consumer, batch(2, [update({"id": 1, "name": "b"})]))
    take(consumer, batch(3, [delete({"id": 2}), update({"id": 1, "name": "c"})]))
    consumer.settle([TABLE])
    assert lake.history("name", "note") == [
        (1, 1001, 2001, "a", "kept"),
        (1, 2001, 3002, "b", "kept"),
        (1, 3002, None, "c", "kept"),
        (2, 1002, 3001, "a", None),
    ]


def test_truncate_ends_all_versions_and_later_rows_are_new_ones(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), update(row(1, "b"))]))
    event = ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500, source_timestamp=THEN)
    for _ in range(2):
        consumer.apply_ddl(event)
    consumer.apply_batch(batch(3, [insert(row(2, "c"))]))
    assert lake.history("name", "_valid_to") == [
        (1, 1001, 1003, "a", THEN),
        (1, 1003, 1500, "b", THEN),
        (2, 1002, 1500, "a", THEN),
        (2, 3001, None, "c", None),
    ]


def test_a_truncate_without_a_time_is_no_later_than_the_changes_after_it(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500))
    consumer.apply_batch(batch(3, [insert(row(1, "b"))]))
    assert lake.history("_valid_to") == [(1, 1001, 1500, THEN), (1, 3001, None, None)]


def test_columns_that_are_added_dropped_and_renamed_keep_the_versions(lake: VersionsWarehouse) -> None:
    """A default is of the current versions, which had the column's value when it was added, and not of those that had ended."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), update(row(1, "b", "n")), insert(row(2, "a"))]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d"), sequence_number=2001))
    assert all(nulls in {0, rows} for rows, nulls in lake.files()), "ended versions stay in files of their own"
    renamed = TableSchema(TABLE, (Column("id", INT64), Column("title", STRING), wider["extra"]), ("id",))
    steps = [
        Alter(AlterKind.RENAME_COLUMN, renamed["title"], KEYED["name"]),
        Alter(AlterKind.DROP_COLUMN, previous=KEYED["note"]),
    ]
    consumer.apply_ddl(alter(3, renamed, *steps, sequence_number=3001))
    consumer.apply_batch(batch(4, [update({"id": 1, "title": "c"}, renamed)]))
    assert lake.history("title", "extra") == [
        (1, 1001, 1002, "a", None),
        (1, 1002, 4001, "b", "d"),
        (1, 4001, None, "c", "d"),
        (2, 1003, None, "a", "d"),
    ]
    assert "note" not in lake.versions()[0]


def test_a_table_that_is_dropped_and_created_again_keeps_its_versions(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), insert(row(2, "a", "n"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    other = TableSchema(TABLE, (Column("id", INT64), Column("name", STRING), Column("note", INT64)), ("id",))
    consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, other, sequence_number=1500))
    consumer.apply_batch(batch(4, [insert({"id": 2, "name": "b", "note": 7}, other)]))
    assert lake.history("name", "note") == [
        (1, 1001, 1500, "a", None),
        (2, 1002, 1500, "a", None),
        (2, 4001, None, "b", 7),
    ]


def test_a_key_of_another_name_is_found_and_comes_back_and_a_table_without_a_key_is_refused(
    lake: VersionsWarehouse,
) -> None:
    consumer = lake.consumer()
    with pytest.raises(NeedsUserError, match="scd2") as raised:
        consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    assert raised.value.code == "RPL-3444"
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    renamed = TableSchema(TABLE, (Column("number", INT64), *KEYED.columns[1:]), ("number",))
    consumer.apply_ddl(alter(2, renamed, Alter(AlterKind.RENAME_COLUMN, renamed["number"], KEYED["id"])))
    consumer.apply_batch(batch(3, [update({"number": 1, "name": "b", "note": None}, renamed)]))
    found = [(one["number"], one["name"], one["_is_current"]) for one in lake.versions()]
    assert sorted(found) == [(1, "a", False), (1, "b", True)]
    assert lake.properties(TABLE)["primary_key"] == '["number"]'
    other = TableSchema(TABLE, renamed.columns)
    with pytest.raises(SchemaDriftError) as dropped:
        consumer.apply_ddl(alter(4, other, Alter(AlterKind.CHANGE_KEY)))
    assert dropped.value.code == "RPL-6432"
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert lake.properties(TABLE)["primary_key"] == '["id"]'
    lake.consumer(epoch=3).apply_batch(batch(2, [update(row(1, "c"))], epoch=3))
    assert lake.history("name") == [(1, 1001, 2001, "a"), (1, 2001, None, "c")]


def test_a_comparison_reads_current_versions_and_a_repair_ends_those_that_differ(
    lake: VersionsWarehouse, iceberg_spark: SparkSession
) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), insert(row(3, "a")), update(row(1, "b"))]))
    version = IcebergTableReader(lake.config, lake.context(epoch=0)).open(KEYED)
    assert sorted((one[0], one[1]) for one in version.rows.collect()) == [(1, "b"), (2, "a"), (3, "a")]
    place = str(lake.folder / "shop" / "customers")
    rows = iceberg_spark.read.format("iceberg").load(place).where("id = 2")
    rows.selectExpr(*(f"{'7L' if name == 'id' else name} as {name}" for name in rows.columns)).write.format(
        "iceberg"
    ).mode("append").save(place)
    changes = [delete({"id": 3}), delete({"id": 7}), insert(row(1, "b")), insert(row(2, "right"))]
    for _ in range(2):
        lake.consumer(epoch=2).repair_rows(batch(1, changes, epoch=2, overlap=True))
        assert lake.history("name") == [
            (1, 1001, 1004, "a"),
            (1, 1004, None, "b"),
            (2, 1002, 1005, "a"),
            (2, 1005, None, "right"),
            (3, 1003, 1005, "a"),
            (7, 1002, 1005, "a"),
        ]
    lake.consumer(epoch=2).apply_batch(batch(2, [update(row(2, "later"))], epoch=2))
    assert lake.history("name")[4] == (2, 2001, None, "later")


def test_a_rewind_takes_versions_back(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    before = lake.history("name")
    consumer.apply_batch(batch(2, [update(row(1, "b")), delete(row(2, "a"))]))
    after = lake.history("name")
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert lake.history("name") == before
    lake.consumer(epoch=3).apply_batch(batch(2, [update(row(1, "b")), delete(row(2, "a"))], epoch=3))
    assert lake.history("name") == after


def test_compaction_keeps_every_version_and_ended_ones_in_files_of_their_own(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(20)]))
    for position in range(2, 14):
        consumer.apply_batch(batch(position, [update(row(position, str(position))), update(row(1, str(position)))]))
    before, files = lake.history("name", "_valid_to", "_is_current"), len(lake.files())
    while not (report := lake.maintain(TABLE, "compact")).is_finished or report.has_changed:
        assert lake.history("name", "_valid_to", "_is_current") == before
    counts = lake.files()
    assert len(counts) < files / 4
    assert all(nulls in {0, rows} for rows, nulls in counts), counts


@pytest.mark.parametrize("made_by", ["scd2", "merge"])
def test_changes_for_a_table_of_another_mode_are_refused_until_it_is_copied_again(
    tmp_path: Path, iceberg_spark: SparkSession, made_by: str
) -> None:
    """Put back, the setting finds the table as it was; TRUNCATE does not take its history away."""
    first = Warehouse(tmp_path / "lake", iceberg_spark, mode=made_by)
    other = Warehouse(tmp_path / "lake", iceberg_spark, mode="merge" if made_by == "scd2" else "scd2")
    first.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("more", STRING)), ("id",))
    events = (
        ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500),
        alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["more"]), sequence_number=1500),
    )
    calls: list[Any] = [lambda event=event: other.consumer(epoch=2).apply_ddl(event) for event in events]
    for call in (*calls, lambda: other.consumer(epoch=2).apply_batch(batch(2, [update(row(1, "b"))], epoch=2))):
        with pytest.raises(SchemaDriftError) as raised:
            call()
        assert raised.value.code == "RPL-6425"
        assert ("history" in str(raised.value.hint)) is (made_by == "scd2")
    first.consumer(epoch=3).apply_batch(batch(2, [update(row(1, "b"))], epoch=3))
    assert current(first) == ["b"]
    rows = SnapshotRows(KEYED, [(1, "c", None)])
    other.consumer(epoch=4).load_whole(KEYED, "plan", at(3), CHUNK, rows, lambda: None)
    assert current(other) == ["c"]
    assert ("version_end_key" in other.properties(TABLE)) is (made_by == "merge")


def test_a_table_that_the_source_creates_again_under_another_mode_keeps_its_history(
    tmp_path: Path, iceberg_spark: SparkSession, lake: VersionsWarehouse
) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b"))]))
    other = Warehouse(tmp_path / "lake", iceberg_spark).consumer(epoch=2)
    other.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    with pytest.raises(SchemaDriftError, match="history"):
        other.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, KEYED, sequence_number=1500))
    assert len(lake.history()) == 2


def test_a_rewind_to_what_maintenance_has_committed_under_another_mode_keeps_the_keys(
    tmp_path: Path, iceberg_spark: SparkSession, lake: VersionsWarehouse
) -> None:
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert(row(number, "a")), update(row(number, "b"))]))
    properties = lake.properties(TABLE)
    other = Warehouse(tmp_path / "lake", iceberg_spark)
    other.maintain(TABLE, "compact")
    lake.consumer(epoch=2).apply_batch(batch(10, [delete({"id": 1})], epoch=2))
    lake.consumer(epoch=3).rewind_table(TABLE, at(9))
    assert lake.properties(TABLE) == properties
    lake.consumer(epoch=4).apply_batch(batch(10, [delete({"id": 1})], epoch=4))
    assert len(lake.history()) == 18


def test_properties_that_another_program_has_removed_are_said_again(lake: VersionsWarehouse) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    properties = lake.properties(TABLE)
    foreign(lake, removes_keys, TABLE)
    consumer = lake.consumer(epoch=2)
    consumer.load_whole(KEYED, "plan", at(2), CHUNK, SnapshotRows(KEYED, [(1, "b", None)]), lambda: None)
    consumer.apply_batch(batch(3, [update(row(1, "c"))], epoch=2))
    assert [one[3] for one in lake.history("name")] == ["a", "b", "c"]
    assert lake.properties(TABLE) == properties


def removes_keys(table: Any, _: Catalog) -> None:
    table.updateProperties().remove("version_end_key").remove("primary_key").commit()


def test_a_column_with_a_default_leaves_the_files_of_ended_versions(lake: VersionsWarehouse) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    consumer.apply_batch(batch(2, [update(row(1, "b")), delete({"id": 2})]))
    before = set(lake.names())
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    consumer.apply_ddl(alter(3, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d"), sequence_number=3001))
    assert {name for name in before if "past-" in name} == before & set(lake.names())
    assert lake.history("name", "extra") == [
        (1, 1001, 2001, "a", None),
        (1, 2001, None, "b", "d"),
        (2, 1002, 2002, "a", None),
    ]


def current(lake: Warehouse) -> list[str]:
    return [one["name"] for one in lake.arrow(TABLE).to_pylist() if one.get("_is_current", True)]
