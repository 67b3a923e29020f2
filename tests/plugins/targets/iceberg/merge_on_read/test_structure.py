"""Changes of structure of merge-on-read tables leave readers the rows that the source has, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import BOOL, INT64, STRING, DataType
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.merge_on_read.latest_warehouse import LatestWarehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of(key: DataType, version: DataType, gone: DataType, name: str = "gone") -> TableSchema:
    return TableSchema(TABLE, (Column("id", key), Column("version", version), Column(name, gone)), ("id",))


BEFORE = schema_of(STRING, INT64, BOOL)
DROPPED = TableSchema(TABLE, BEFORE.columns[:2], ("id",))
RENAMED = schema_of(STRING, INT64, BOOL, "removed")
NUMBERS = schema_of(INT64, INT64, BOOL)
TEXTS = schema_of(STRING, STRING, BOOL)
OTHER_KEY = TableSchema(TABLE, BEFORE.columns, ("id", "version"))
GONE = BEFORE["gone"]
KEYS: dict[str, Any] = {"watermarkKeys": ["version"], "tombstoneKey": "gone"}


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        pytest.param(DROPPED, [Alter(AlterKind.DROP_COLUMN, previous=GONE)], id="the tombstone key is dropped"),
        pytest.param(RENAMED, [Alter(AlterKind.RENAME_COLUMN, RENAMED["removed"], GONE)], id="it is renamed"),
        pytest.param(
            TEXTS, [Alter(AlterKind.RETYPE_COLUMN, TEXTS["version"], BEFORE["version"])], id="as texts, 9 is above 10"
        ),
        pytest.param(
            NUMBERS, [Alter(AlterKind.RETYPE_COLUMN, NUMBERS["id"], BEFORE["id"])], id="as numbers, 01 and 1 are one"
        ),
        pytest.param(OTHER_KEY, [Alter(AlterKind.CHANGE_KEY)], id="another key"),
    ],
)
def test_a_change_after_which_readers_would_see_other_rows_is_refused(
    tmp_path: Path, iceberg_spark: SparkSession, after: TableSchema, steps: list[Alter]
) -> None:
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark, **KEYS)
    consumer = lake.consumer()

    def of(key: str, version: int) -> dict[str, Any]:
        return {"id": key, "version": version, "gone": False}

    consumer.apply_batch(batch(1, [insert(of("1", 9), BEFORE), insert(of("01", 11), BEFORE)]))
    consumer.apply_batch(batch(2, [update(of("1", 10), BEFORE), delete(of("01", 11), BEFORE)]))
    snapshots = len(lake.summaries(TABLE))
    with pytest.raises(SchemaDriftError) as raised:
        consumer.apply_ddl(alter(3, after, *steps))
    assert raised.value.code == "RPL-6432"
    assert len(lake.summaries(TABLE)) == snapshots
    assert [(r["id"], r["version"]) for r in lake.rows(TABLE)] == [("1", 10)]
    consumer.apply_ddl(ddl(3, DDLOperation.TRUNCATE_TABLE, BEFORE))
    assert lake.rows(TABLE) == lake.by_spark() == []


def test_a_changed_type_that_readers_see_nothing_of_is_followed(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    before, after = schema_of(INT64, INT64, BOOL), schema_of(STRING, INT64, BOOL)
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark, **KEYS)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": 1, "version": 9, "gone": False}, before)]))
    consumer.apply_ddl(alter(2, after, Alter(AlterKind.RETYPE_COLUMN, after["id"], before["id"])))
    consumer.apply_batch(batch(3, [update({"id": "1", "version": 10, "gone": False}, after)]))
    assert [(r["id"], r["version"]) for r in lake.rows(TABLE)] == [("1", 10)]


def test_columns_come_with_defaults_and_go_also_for_deleted_rows(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark)
    wider = TableSchema(TABLE, (*KEYED.columns, Column("city", STRING)), ("id",))
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a")), delete(row(2, "a"))]))
    consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["city"], default="Rome")))
    consumer.apply_batch(batch(3, [update({"id": 1, "name": "b"}, wider)]))
    assert [(r["id"], r["name"], r["city"]) for r in lake.rows(TABLE)] == [(1, "b", "Rome")]
    consumer.apply_ddl(alter(4, KEYED, Alter(AlterKind.DROP_COLUMN, previous=wider["city"])))
    consumer.apply_batch(batch(5, [insert(row(2, "again"))]))
    assert lake.names() == [(1, "b"), (2, "again")]


def test_a_renamed_key_is_the_key_of_readers_also_when_the_table_goes_back(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark)
    renamed = TableSchema(TABLE, (Column("number", INT64), *KEYED.columns[1:]), ("number",))
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    consumer.apply_ddl(alter(2, renamed, Alter(AlterKind.RENAME_COLUMN, renamed["number"], KEYED["id"])))
    consumer.apply_batch(batch(3, [update({"number": 1, "name": "b", "note": None}, renamed)]))
    assert [(r["number"], r["name"]) for r in lake.by_spark()] == [(1, "b")]
    assert lake.properties(TABLE)["primary_key"] == '["number"]'
    lake.consumer(epoch=2).rewind_table(TABLE, at(1))
    assert [(r["id"], r["name"]) for r in lake.by_spark()] == [(1, "a")]
    lake.consumer(epoch=3).apply_batch(batch(2, [update(row(1, "c"))], epoch=3))
    assert lake.names() == [(1, "c")]


def test_keys_that_were_edited_are_not_taken_over_by_a_change_of_structure(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    """Tombstones of before have no values for them: deleted rows would come back."""
    wider = TableSchema(TABLE, (*BEFORE.columns, Column("more", STRING)), ("id",))
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark)
    gone = {"id": "1", "version": 9, "gone": False}
    lake.consumer().apply_batch(batch(1, [insert(gone, BEFORE), delete({"id": "1"}, BEFORE)]))
    edited = LatestWarehouse(tmp_path / "lake", iceberg_spark, watermarkKeys=["version"])
    with pytest.raises(SchemaDriftError) as raised:
        edited.consumer(epoch=2).apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["more"])))
    assert raised.value.code == "RPL-6432"
    assert lake.rows(TABLE) == []


def test_a_column_of_the_tombstone_keys_name_that_the_source_adds_is_refused(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark)
    wider = TableSchema(TABLE, (*KEYED.columns, Column("_is_deleted", BOOL)), ("id",))
    lake.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(SchemaDriftError) as raised:
        lake.consumer().apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["_is_deleted"])))
    assert raised.value.code == "RPL-6427"
    assert lake.names() == [(1, "a")]


def test_a_dropped_table_gives_way_to_its_successor_with_other_keys(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = LatestWarehouse(tmp_path / "lake", iceberg_spark)
    other = TableSchema(TABLE, KEYED.columns, ("name",))
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, KEYED))
    consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, other))
    consumer.apply_batch(batch(4, [insert(row(1, "b"), other), insert(row(1, "c"), other)]))
    assert lake.names() == [(1, "b"), (1, "c")]
