"""What is in the tables: both formats, both catalogs, old rows under new columns, maintenance, drops; read by `pyiceberg`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import INT32, INT64, STRING
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import KEYED, TABLE, alter, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRICT = TableSchema(TABLE, (Column("id", INT64, nullable=False), *KEYED.columns[1:]), ("id",))


def by_id(lake: Warehouse) -> dict[int, dict[str, Any]]:
    return {r["id"]: r for r in lake.rows(TABLE)}


@pytest.mark.parametrize(("catalog_type", "version"), [("hadoop", 2), ("hadoop", 3), ("jdbc", 2), ("jdbc", 3)], ids=str)
def test_updates_and_deletes_reach_tables_of_both_formats_in_both_catalogs(
    tmp_path: Path, iceberg_spark: SparkSession, catalog_type: str, version: int
) -> None:
    """Rows of one file go batch by batch, the file's last one too."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, catalog_type, formatVersion=version)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "old")) for key in range(6)]))
    consumer.apply_batch(batch(2, [delete({"id": 0}), update(row(1, "new"))]))
    consumer.apply_batch(batch(3, [delete({"id": 2}), update({"id": 3, "note": "n"})]))
    consumer.apply_batch(batch(4, [update({"id": 9, "name": "moved"}, before={"id": 4})]))
    consumer.stop()
    assert by_id(lake) == {
        1: row(1, "new"),
        3: row(3, "old", "n"),
        5: row(5, "old"),
        9: row(9, "moved"),
    }
    table = lake.table(TABLE)
    assert table.format_version == version
    assert len(table.inspect.delete_files()) == 1
    again = lake.consumer()
    again.apply_batch(batch(5, [delete({"id": 5}), delete({"id": 1}), delete({"id": 3})]))
    again.stop()
    assert by_id(lake) == {9: row(9, "moved")}
    assert len(lake.table(TABLE).inspect.delete_files()) == 0


def test_old_rows_are_read_right_under_columns_of_other_names_and_types(warehouse: Warehouse) -> None:
    """A column that was dropped does not come back with a new one of its name; a wider type and a new name keep the values."""
    narrow = TableSchema(TABLE, (Column("id", INT64), Column("name", STRING), Column("n", INT32)), ("id",))
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert({"id": 1, "name": "a", "n": 7}, narrow)]))
    wide = TableSchema(
        TABLE, (Column("id", INT64), Column("label", STRING), Column("n", INT64), Column("name", STRING)), ("id",)
    )
    steps = (
        Alter(AlterKind.RENAME_COLUMN, Column("label", STRING), Column("name", STRING)),
        Alter(AlterKind.ADD_COLUMN, Column("name", STRING)),
        Alter(AlterKind.RETYPE_COLUMN, Column("n", INT64), Column("n", INT32)),
    )
    consumer.apply_ddl(alter(2, wide, *steps))
    consumer.apply_batch(batch(3, [insert({"id": 2, "label": "b", "n": 2**40, "name": "c"}, wide)]))
    consumer.apply_batch(batch(4, [update({"id": 1, "name": "late"}, wide)]))
    consumer.stop()
    assert by_id(warehouse) == {
        1: {"id": 1, "label": "a", "n": 7, "name": "late"},
        2: {"id": 2, "label": "b", "n": 2**40, "name": "c"},
    }
    assert len({f.field_id for f in warehouse.table(TABLE).schema().fields}) == 4


def test_a_key_that_allows_no_null_is_the_table_s_identifier(warehouse: Warehouse) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1), STRICT)]))
    assert warehouse.table(TABLE).schema().identifier_field_names() == {"id"}
    consumer.apply_ddl(alter(2, KEYED, Alter(AlterKind.RELAX_COLUMN, Column("id", INT64), STRICT.columns[0])))
    assert warehouse.table(TABLE).schema().identifier_field_names() == set()
    consumer.apply_batch(batch(3, [insert(row(2)), update(row(1, "x"))]))
    consumer.stop()
    assert sorted(by_id(warehouse)) == [1, 2]


def test_small_files_are_put_together_and_snapshots_expire(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, snapshotsKept=10)
    consumer = lake.consumer()
    for number in range(1, 13):
        consumer.apply_batch(
            batch(number, [insert(row(number)), *([delete({"id": number - 1})] if number == 2 else [])])
        )
    expected, progress = by_id(lake), consumer.progress(TABLE)
    assert lake.maintain(TABLE, "compact").files_after == 1
    assert lake.maintain(TABLE, "compact").has_changed is False
    assert len(lake.table(TABLE).snapshots()) == 13
    lake.maintain(TABLE, "expire")
    assert len(lake.table(TABLE).snapshots()) == 10
    assert by_id(lake) == expected
    assert consumer.progress(TABLE) == progress
    consumer.apply_batch(batch(13, [update(row(5, "after"))]))
    consumer.stop()
    assert by_id(lake) == {**expected, 5: row(5, "after")}


def test_properties_of_tables_follow_the_patterns(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    patterns = {
        "*": {"write.metadata.metrics.default": "full", "a": "1"},
        "shop.cust*": {"a": "2"},
        "shop.log": {"a": "3"},
    }
    lake = Warehouse(tmp_path / "lake", iceberg_spark, tableProperties=patterns)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.stop()
    found = lake.table(TABLE).properties
    assert (found["a"], found["write.metadata.metrics.default"]) == ("2", "full")


def test_a_dropped_table_is_deleted_where_the_settings_say_so(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, dropTables="drop")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    assert consumer.progress(TABLE) is None
    name = identifier(TABLE)
    assert not (lake.folder / name.namespace / name.name).exists()
    consumer.apply_batch(batch(3, [insert(row(2))]))
    consumer.stop()
    assert sorted(by_id(lake)) == [2]


def test_a_history_has_what_each_change_was(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, mode="append")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "x")), update({"id": 1, "name": "b"}), delete(row(1, "b", "x"))]))
    consumer.apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=2000))
    consumer.stop()
    found = sorted(lake.rows(TABLE), key=lambda r: int(r["_sequence_num"]))
    assert [(r["_op"], r["id"], r["name"], r["note"], r["_unchanged"]) for r in found] == [
        ("I", 1, "a", "x", None),
        ("U", 1, "b", None, ["note"]),
        ("D", 1, "b", "x", None),
        ("T", None, None, None, None),
    ]
    assert found[2]["_before"] == row(1, "b", "x")
    assert found[0]["_source_timestamp"] is not None
