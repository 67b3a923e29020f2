"""Changes of structure of merge-on-read tables leave readers the rows that the source has, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import BOOL, INT64, STRING, DataType
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.delta.merge_on_read.latest import LatestLake, read_latest
from tests.plugins.targets.snapshot_rows import SnapshotRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of(key: DataType, version: DataType, gone: DataType, name: str = "gone") -> TableSchema:
    return TableSchema(TABLE, (Column("id", key), Column("version", version), Column(name, gone)), ("id",))


BEFORE = schema_of(STRING, INT64, BOOL)
DROPPED = TableSchema(TABLE, BEFORE.columns[:2], ("id",))
RENAMED = schema_of(STRING, INT64, BOOL, "removed")
NUMBERS = schema_of(INT64, INT64, BOOL)
TEXTS = schema_of(STRING, STRING, BOOL)
COUNTED = schema_of(STRING, INT64, INT64)
GONE = BEFORE["gone"]


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        pytest.param(DROPPED, [Alter(AlterKind.DROP_COLUMN, previous=GONE)], id="the tombstone key is dropped"),
        pytest.param(RENAMED, [Alter(AlterKind.RENAME_COLUMN, RENAMED["removed"], GONE)], id="it is renamed"),
        pytest.param(
            BEFORE,
            [Alter(AlterKind.DROP_COLUMN, previous=GONE), Alter(AlterKind.ADD_COLUMN, GONE)],
            id="it is dropped and added, so that deleted rows would come back",
        ),
        pytest.param(
            COUNTED, [Alter(AlterKind.RETYPE_COLUMN, COUNTED["gone"], GONE)], id="false becomes 0, which says deleted"
        ),
        pytest.param(
            TEXTS,
            [Alter(AlterKind.RETYPE_COLUMN, TEXTS["version"], BEFORE["version"])],
            id="as texts, 9 is above 10",
        ),
        pytest.param(
            NUMBERS,
            [Alter(AlterKind.RETYPE_COLUMN, NUMBERS["id"], BEFORE["id"])],
            id="as numbers, a deleted key 01 and a living 1 are one",
        ),
    ],
)
def test_a_change_after_which_readers_would_see_other_rows_is_refused(
    tmp_path: Path, spark: SparkSession, after: TableSchema, steps: list[Alter]
) -> None:
    lake = LatestLake(tmp_path / "lake", spark, watermarkKeys=["version"], tombstoneKey="gone")
    consumer = lake.consumer()

    def of(key: str, version: int) -> dict[str, Any]:
        return {"id": key, "version": version, "gone": False}

    consumer.apply_batch(batch(1, [insert(of("1", 9), BEFORE), insert(of("01", 11), BEFORE)]))
    consumer.apply_batch(batch(2, [update(of("1", 10), BEFORE), delete(of("01", 11), BEFORE)]))
    version = lake.version(TABLE)
    with pytest.raises(SchemaDriftError) as raised:
        consumer.apply_ddl(alter(3, after, *steps))
    assert raised.value.code == "RPL-6414"
    assert lake.version(TABLE) == version
    assert [(r["id"], r["version"]) for r in lake.rows(TABLE)] == [("1", 10)]


def test_a_change_that_readers_see_nothing_of_is_followed(tmp_path: Path, spark: SparkSession) -> None:
    before, after = schema_of(INT64, INT64, BOOL), schema_of(STRING, INT64, BOOL)
    lake = LatestLake(tmp_path / "lake", spark, watermarkKeys=["version"], tombstoneKey="gone")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": 1, "version": 9, "gone": False}, before)]))
    consumer.apply_ddl(alter(2, after, Alter(AlterKind.RETYPE_COLUMN, after["id"], before["id"])))
    consumer.apply_batch(batch(3, [update({"id": "1", "version": 10, "gone": False}, after)]))
    assert [(r["id"], r["version"]) for r in lake.rows(TABLE)] == [("1", 10)]


def test_keys_that_were_edited_are_not_taken_over_by_a_change_of_structure(tmp_path: Path, spark: SparkSession) -> None:
    """Tombstones of before have no values for them: deleted rows would come back."""
    wider = TableSchema(TABLE, (*BEFORE.columns, Column("more", STRING)), ("id",))
    lake = LatestLake(tmp_path / "lake", spark)
    gone = {"id": "1", "version": 9, "gone": False}
    lake.consumer().apply_batch(batch(1, [insert(gone, BEFORE), delete({"id": "1"}, BEFORE)]))
    edited = LatestLake(tmp_path / "lake", spark, watermarkKeys=["version"])
    with pytest.raises(SchemaDriftError) as raised:
        edited.consumer(epoch=2).apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["more"])))
    assert raised.value.code == "RPL-6414"
    assert lake.rows(TABLE) == []


def test_a_table_goes_back_to_how_it_was_read_in_the_other_mode(tmp_path: Path, spark: SparkSession) -> None:
    """Tables of both modes may have the same columns: only their properties differ."""
    appended = LatestLake(tmp_path / "lake", spark, tombstoneStringKeyValue="gone", tombstoneKey="state")
    marked = LatestLake(tmp_path / "lake", spark)
    merged = Lake(tmp_path / "lake", spark, softDeletes=True)
    appended.consumer().apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b"))]))
    for epoch, lake in ((2, marked), (3, merged)):
        consumer = lake.consumer(epoch=epoch)
        position, plan, chunk = at(10 * epoch), f"plan {epoch}", [SnapshotChunk(0, {})]
        consumer.load_whole(KEYED, plan, position, chunk, SnapshotRows(KEYED, [(1, "c", None)]), lambda: None)
        consumer.apply_batch(batch(10 * epoch + 1, [update(row(1, "d")), insert(row(2, "d"))], epoch=epoch))
    properties = dict(marked.properties(TABLE))
    assert "watermark_key" not in properties
    merged.consumer(epoch=4).rewind_table(TABLE, at(21))
    assert sorted((r["id"], r["name"]) for r in read_latest(merged.path(TABLE))) == [(1, "d"), (2, "d")]
    with pytest.raises(SchemaDriftError) as raised:
        merged.consumer(epoch=5).apply_batch(batch(22, [insert(row(3, "e"))], epoch=5))
    assert raised.value.code == "RPL-6405"
    appended.consumer(epoch=6).rewind_table(TABLE, at(1))
    assert [(r["id"], r["name"]) for r in read_latest(merged.path(TABLE))] == [(1, "b")]
    assert marked.properties(TABLE)["tombstone_string_key_value"] == "gone"
