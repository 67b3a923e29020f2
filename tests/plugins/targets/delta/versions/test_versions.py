"""The mode `scd2`: which versions follow from changes, copies, changes of structure, repairs and rewinds, read by `deltalake`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import DataError, NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_delta.config import DeltaConfig, Mode
from replicator_target_delta.table_reader import DeltaTableReader
from tests.plugins.targets.changes import (
    KEYED,
    KEYLESS,
    TABLE,
    alter,
    at,
    batch,
    ddl,
    delete,
    insert,
    row,
    update,
)
from tests.plugins.targets.delta.apply.test_slice import Copy
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.delta.versions.versions_lake import VersionsLake
from tests.plugins.targets.snapshot_rows import SnapshotRows
from tests.plugins.targets.version_model import assert_in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THEN = datetime.fromtimestamp(1_700_000_000, UTC)
CHUNK = [SnapshotChunk(0, {})]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> VersionsLake:
    return VersionsLake(tmp_path / "lake", spark)


def history(lake: VersionsLake, *columns: str, table: TableId = TABLE) -> list[tuple[Any, ...]]:
    """Some columns of all versions by key and number, after the key, the number and the number that ended each."""
    found = lake.versions(table)
    assert_in_order(found)
    names = ("id", "_sequence_num", "_end_sequence_num", *columns)
    return sorted((tuple(one[name] for name in names) for one in found), key=lambda one: one[:2])


def test_every_change_is_a_version_and_a_replay_adds_none(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a", "kept")), update(row(1, "b"))]))
    later = [update({"id": 2, "name": "b"}), update({"id": 3, "name": "c"}, before={"id": 2}), delete(row(1, "b"))]
    for run in (1, 1, 2):
        lake.consumer(epoch=run).apply_batch(batch(2, later, epoch=run))
    assert history(lake, "name", "note", "_is_current") == [
        (1, 1001, 1003, "a", None, False),
        (1, 1003, 2003, "b", None, False),
        (2, 1002, 2001, "a", "kept", False),
        (2, 2001, 2002, "b", "kept", False),
        (3, 2002, None, "c", "kept", True),
    ]
    assert {one["_valid_from"] for one in lake.versions(TABLE)} == {THEN}


def test_an_update_whose_former_row_is_gone_is_an_error_and_a_delete_is_counted(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(DataError) as raised:
        consumer.apply_batch(batch(2, [update({"id": 9, "name": "b"})]))
    assert raised.value.code == "RPL-5401"
    consumer.apply_batch(batch(2, [delete(row(9))]))
    assert history(lake) == [(1, 1001, None)]


def test_a_second_copy_ends_what_is_gone_opens_what_differs_and_leaves_the_rest(lake: VersionsLake) -> None:
    """In steps, interrupted between them, and in one commit; the versions of before stay."""
    copied = [(1, "a", None), (2, "a", None), (3, "a", "n")]
    first = lake.consumer()
    first.begin_snapshot(KEYED, "first", at(1))
    first.load_chunks(KEYED, "first", CHUNK, SnapshotRows(KEYED, copied))
    first.finish_snapshot(KEYED, "first", at(1))
    assert history(lake, "name") == [(1, 0, None, "a"), (2, 0, None, "a"), (3, 0, None, "a")]
    first.apply_batch(batch(2, [update(row(1, "b"))]))
    again = [SnapshotChunk(0, {}), SnapshotChunk(1, {})]
    second = lake.consumer(epoch=2)
    second.begin_snapshot(KEYED, "second", at(3))
    second.load_chunks(KEYED, "second", again[:1], SnapshotRows(KEYED, [(1, "b", None), (4, "new", None)]))
    assert len(history(lake)) == 4, "nothing is seen of a copy that is not finished"
    third = lake.consumer(epoch=3)
    assert third.begin_snapshot(KEYED, "second", at(3)) == {0}
    third.load_chunks(KEYED, "second", again[1:], SnapshotRows(KEYED, [(3, "a", "other")]))
    lake.maintain(TABLE, "vacuum", epoch=3)
    third.finish_snapshot(KEYED, "second", at(3))
    found = [
        (1, 0, 2001, "a", None),
        (1, 2001, None, "b", None),
        (2, 0, 2002, "a", None),
        (3, 0, 2002, "a", "n"),
        (3, 2002, None, "a", "other"),
        (4, 2002, None, "new", None),
    ]
    assert history(lake, "name", "note") == found
    rows = [(1, "b", None), (3, "a", "other")]
    third.load_whole(KEYED, "beside", at(4), CHUNK, SnapshotRows(KEYED, rows), lambda: None)
    found[-1] = (4, 2002, 2003, "new", None)
    assert history(lake, "name", "note") == found
    third.apply_batch(batch(5, [update(row(3, "last"))], epoch=3))
    assert history(lake, "name")[-2:] == [(3, 5001, None, "last"), (4, 2002, 2003, "new")]


def test_truncate_ends_all_versions_and_later_rows_are_new_ones(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), update(row(1, "b"))]))
    event = ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500, source_timestamp=THEN)
    for _ in range(2):
        consumer.apply_ddl(event)
    consumer.apply_batch(batch(3, [insert(row(2, "c"))]))
    assert history(lake, "name", "_valid_to") == [
        (1, 1001, 1003, "a", THEN),
        (1, 1003, 1500, "b", THEN),
        (2, 1002, 1500, "a", THEN),
        (2, 3001, None, "c", None),
    ]


def test_a_truncate_without_a_time_is_no_later_than_the_changes_after_it(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500))
    consumer.apply_batch(batch(3, [insert(row(1, "b"))]))
    assert history(lake, "_valid_to") == [(1, 1001, 1500, THEN), (1, 3001, None, None)]


def test_columns_that_are_added_dropped_and_renamed_keep_the_versions(lake: VersionsLake) -> None:
    """A default is of the current versions, which had the column's value when it was added, and not of those that had ended."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), update(row(1, "b", "n")), insert(row(2, "a"))]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d"), sequence_number=2001))
    renamed = TableSchema(TABLE, (Column("id", INT64), Column("title", STRING), wider["extra"]), ("id",))
    steps = [
        Alter(AlterKind.RENAME_COLUMN, renamed["title"], KEYED["name"]),
        Alter(AlterKind.DROP_COLUMN, previous=KEYED["note"]),
    ]
    consumer.apply_ddl(alter(3, renamed, *steps, sequence_number=3001))
    consumer.apply_batch(batch(4, [update({"id": 1, "title": "c"}, renamed)]))
    assert history(lake, "title", "extra") == [
        (1, 1001, 1002, "a", None),
        (1, 1002, 4001, "b", "d"),
        (1, 4001, None, "c", "d"),
        (2, 1003, None, "a", "d"),
    ]
    assert "note" not in lake.versions(TABLE)[0]


def test_a_table_that_is_dropped_and_created_again_keeps_its_versions(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), insert(row(2, "a", "n"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    other = TableSchema(TABLE, (Column("id", INT64), Column("name", STRING), Column("note", INT64)), ("id",))
    consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, other, sequence_number=1500))
    consumer.apply_batch(batch(4, [insert({"id": 2, "name": "b", "note": 7}, other)]))
    assert history(lake, "name", "note") == [
        (1, 1001, 1500, "a", None),
        (2, 1002, 1500, "a", None),
        (2, 4001, None, "b", 7),
    ]


def test_a_key_of_another_name_is_found_and_a_table_without_a_key_is_refused(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    with pytest.raises(NeedsUserError) as raised:
        consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    assert raised.value.code == "RPL-3417"
    assert "scd2" in str(raised.value)
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    renamed = TableSchema(TABLE, (Column("number", INT64), *KEYED.columns[1:]), ("number",))
    consumer.apply_ddl(alter(2, renamed, Alter(AlterKind.RENAME_COLUMN, renamed["number"], KEYED["id"])))
    consumer.apply_batch(batch(3, [update({"number": 1, "name": "b", "note": None}, renamed)]))
    found = [(one["number"], one["name"], one["_is_current"]) for one in lake.versions(TABLE)]
    assert sorted(found) == [(1, "a", False), (1, "b", True)]
    other = TableSchema(TABLE, renamed.columns)
    with pytest.raises(NeedsUserError):
        consumer.apply_ddl(alter(4, other, Alter(AlterKind.CHANGE_KEY)))


def test_a_comparison_reads_current_versions_and_a_repair_ends_those_that_differ(
    lake: VersionsLake, spark: SparkSession
) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), insert(row(3, "a")), update(row(1, "b"))]))
    version = DeltaTableReader(lake.config, lake.context(epoch=0)).open(KEYED)
    assert sorted((one[0], one[1]) for one in version.rows.collect()) == [(1, "b"), (2, "a"), (3, "a")]
    spark.sql(f"UPDATE delta.`{lake.path(TABLE)}` SET name = 'damaged' WHERE id = 2")
    changes = [delete({"id": 3}), insert(row(1, "b")), insert(row(2, "a"))]
    for _ in range(2):
        lake.consumer(epoch=2).repair_rows(batch(1, changes, epoch=2, overlap=True))
        assert history(lake, "name") == [
            (1, 1001, 1004, "a"),
            (1, 1004, None, "b"),
            (2, 1002, 1005, "damaged"),
            (2, 1005, None, "a"),
            (3, 1003, 1005, "a"),
        ]


def test_a_rewind_takes_versions_back(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    before = history(lake, "name")
    consumer.apply_batch(batch(2, [update(row(1, "b")), delete(row(2, "a"))]))
    after = history(lake, "name")
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert history(lake, "name") == before
    lake.consumer(epoch=3).apply_batch(batch(2, [update(row(1, "b")), delete(row(2, "a"))], epoch=3))
    assert history(lake, "name") == after


def test_compaction_keeps_every_version_and_ended_ones_in_files_of_their_own(lake: VersionsLake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(20)]))
    for position in range(2, 14):
        consumer.apply_batch(batch(position, [update(row(position, str(position))), update(row(1, str(position)))]))
    before = history(lake, "name", "_valid_to", "_is_current")
    files = len(lake.files(TABLE))
    lake.maintain(TABLE, "compact")
    assert history(lake, "name", "_valid_to", "_is_current") == before
    counts = lake.files(TABLE)
    assert len(counts) < files
    assert all(nulls in {0, rows} for rows, nulls in counts), counts


def test_executors_write_versions_of_what_they_read(tmp_path: Path, lake: VersionsLake) -> None:
    copy = Copy(tmp_path, lake)
    consumer = copy.consumer()
    copy.folder.append([insert(row(1, "a")), update(row(1, "b")), insert(row(2, "a"))], partition=0)
    copy.folder.append([insert(row(3, "a"))], partition=1)
    assert not copy.take(consumer, tables={TABLE: KEYED}).failures
    end = copy.folder.end()
    copy.folder.append([update({"id": 1, "name": "c"}), delete(row(2, "a"))], partition=1)
    assert not copy.take(consumer, end, {TABLE: KEYED}).failures
    found = lake.versions(TABLE)
    assert_in_order(found)
    assert sorted((one["id"], one["name"], one["_is_current"]) for one in found) == [
        (1, "a", False),
        (1, "b", False),
        (1, "c", True),
        (2, "a", False),
        (3, "a", True),
    ]
    end = copy.folder.end()
    copy.folder.append([update(row(1, "x"))], partition=0)
    copy.folder.append([update(row(1, "y"))], partition=1)
    (error,) = copy.take(consumer, end, {TABLE: KEYED}).failures.values()
    assert isinstance(error, DataError)
    assert error.code == "RPL-5406"


def test_a_table_of_another_mode_is_refused_until_it_is_copied_again(tmp_path: Path, spark: SparkSession) -> None:
    merged, versions = Lake(tmp_path / "lake", spark), VersionsLake(tmp_path / "lake", spark)
    merged.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(SchemaDriftError) as raised:
        versions.consumer(epoch=2).apply_batch(batch(2, [update(row(1, "b"))], epoch=2))
    assert raised.value.code == "RPL-6405"
    rows = SnapshotRows(KEYED, [(1, "a", None)])
    versions.consumer(epoch=2).load_whole(KEYED, "plan", at(2), CHUNK, rows, lambda: None)
    assert history(versions, "name", "_is_current")[0][3:] == ("a", True)
    merged.consumer(epoch=3).load_whole(KEYED, "back", at(3), CHUNK, rows, lambda: None)
    assert [one["name"] for one in merged.rows(TABLE)] == ["a"]


@pytest.mark.parametrize(
    "settings", [{"softDeletes": True}, {"watermarkKeys": ["ts"]}, {"metadataColumns": ["valid_from"]}]
)
def test_settings_of_other_modes_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"softDeletes|watermarkKeys|metadata column"):
        DeltaConfig(path="/data/lake", mode=Mode.SCD2, **settings)
