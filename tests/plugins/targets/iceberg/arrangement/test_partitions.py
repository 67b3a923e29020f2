"""Partitioned and sorted tables: each file is of one partition, rows move between them, and structure changes around them; read by `pyiceberg`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

from replicator_sdk.datatype import FLOAT64, INT32, INT64, STRING, TIMESTAMP
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.target_suite import TargetConformance
from replicator_target_iceberg.apply import matching
from replicator_target_iceberg.files import data_file
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.arrangement.placement import check_placement, partitions
from tests.plugins.targets.iceberg.test_tables import by_id
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.consumer import IcebergConsumer

EVENTS = TableSchema(
    TABLE,
    (Column("id", INT64), Column("region", STRING), Column("at", TIMESTAMP), Column("n", INT32)),
    ("id", "region"),
)
BY_REGION: dict[str, Any] = {"partitioning": {"*": ["region", "month(at)"]}, "sortOrder": {"*": ["n desc", "id"]}}


def event(key: int, region: str | None, month: int = 1, n: int | None = None) -> dict[str, Any]:
    return {"id": key, "region": region, "at": datetime(2024, month, 1 + key % 28), "n": n}


class Histories(TargetConformance):
    random_histories: ClassVar[int] = 2


@pytest.mark.parametrize(("version", "mode"), [(2, "merge"), (3, "merge"), (2, "append")], ids=str)
def test_random_histories_arrive_in_partitioned_and_sorted_tables(
    tmp_path: Path, iceberg_spark: SparkSession, version: int, mode: str
) -> None:
    """With moves of keys to other partitions, NULL and text of several bytes, columns that come, and rows without a key."""
    arranged: dict[str, Any] = {
        "partitioning": {
            "*_keyed": ["bucket(3, id)", "truncate(1, name)"],
            "*_keyless": ["name", "truncate(2, number)"],
        },
        "sortOrder": {"*_keyed": ["number desc nulls first", "id"], "*_keyless": ["number"]},
    }
    lake = Warehouse(tmp_path / "lake", iceberg_spark, formatVersion=version, mode=mode, **arranged)
    Histories().test_random_histories_arrive(lake)
    files = [check_placement(lake.table(table)) for table in lake.tables()]
    assert len(files) >= 4
    assert sum(files) > 0


@pytest.mark.parametrize("version", [2, 3])
def test_a_row_that_moves_to_another_partition_is_deleted_in_the_old_one(
    tmp_path: Path, iceberg_spark: SparkSession, version: int
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, formatVersion=version, **BY_REGION)
    consumer = lake.consumer()
    rows = [event(key, "eu" if key % 2 else "us", 1 + key % 3, key) for key in range(12)]
    consumer.apply_batch(batch(1, [insert(r, EVENTS) for r in rows]))
    assert len(partitions(lake.table(TABLE))) == 6
    moved = update(event(1, "asia", 5), EVENTS, before={"id": 1, "region": "eu"})
    consumer.apply_batch(
        batch(2, [moved, update(event(2, "us", 12), EVENTS), delete({"id": 3, "region": "eu"}, EVENTS)])
    )
    consumer.apply_batch(batch(3, [update({"id": 5, "region": "eu", "n": 50}, EVENTS)]))
    expected = {r["id"]: r for r in rows} | {1: event(1, "asia", 5), 2: event(2, "us", 12), 5: event(5, "eu", 3, 50)}
    del expected[3]
    assert by_id(lake) == expected
    table = lake.table(TABLE)
    check_placement(table)
    assert any(task.delete_files for task in table.scan().plan_files())
    of_us = table.scan(row_filter="region == 'us' and at >= '2024-02-01T00:00:00'")
    assert {r["id"] for r in of_us.to_arrow().to_pylist()} == {2, 4, 8, 10}
    assert len(list(of_us.plan_files())) == 3  # months 2, 3 and 12
    assert ("asia", (2024 - 1970) * 12 + 4) in {values for _, values in partitions(table).values()}
    consumer.stop()


def test_only_files_of_partitions_that_may_hold_a_key_are_read(
    tmp_path: Path, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range of the first key column is the same in all of them. A new consumer lists the files from the catalog."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, partitioning={"*": ["bucket(4, id)", "region"]})
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(event(key, "eu" if key % 2 else "us"), EVENTS) for key in range(100)]))
    assert len(partitions(lake.table(TABLE))) == 8
    read, opened = data_file.read_rows, list[str]()

    def counted(storage: Any, location: str, fields: Any) -> Any:
        opened.append(location)
        return read(storage, location, fields)

    monkeypatch.setattr(matching, "read_rows", counted)
    consumer.apply_batch(batch(2, [update(event(50, "us", 7), EVENTS)]))
    assert len(opened) == 1
    consumer.stop()
    again = lake.consumer()
    again.apply_batch(batch(3, [update(event(50, "us", 8), EVENTS), delete({"id": 51, "region": "eu"}, EVENTS)]))
    again.stop()
    assert len(opened) <= 1 + 5  # of nine
    assert by_id(lake)[50] == event(50, "us", 8)
    assert len(by_id(lake)) == 99


def evolve(lake: Warehouse, *steps: tuple[str, str]) -> None:
    """Another program gives the table another partition specification."""
    catalog = Catalog(lake.spark(), lake.config)
    update_of = catalog.jvm[".BaseTable"](catalog.operations(identifier(TABLE)), "t").updateSpec()
    for method, name in steps:
        getattr(update_of, method)(name)
    update_of.commit()
    catalog.close()


def test_a_table_that_another_program_partitions_is_written_by_its_newest_specification(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    """Files of before keep theirs, also for what says which of their rows are gone; compaction brings them to the newest."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(event(key, "eu" if key % 2 else None), EVENTS) for key in range(10)]))
    evolve(lake, ("addField", "region"))
    consumer.apply_batch(batch(2, [insert(event(20, "eu"), EVENTS), delete({"id": 1, "region": "eu"}, EVENTS)]))
    evolve(lake, ("removeField", "region"), ("addField", "n"))
    gone = [delete({"id": 2, "region": None}, EVENTS), delete({"id": 3, "region": "eu"}, EVENTS)]
    consumer.apply_batch(batch(3, [update(event(20, "eu", 3, 7), EVENTS), *gone]))
    for number in range(4, 13):
        consumer.apply_batch(batch(number, [insert(event(100 + number, "eu", 1, 7), EVENTS)]))
    consumer.stop()
    expected = {key: event(key, "eu" if key % 2 else None) for key in (0, *range(4, 10))}
    expected |= {100 + number: event(100 + number, "eu", 1, 7) for number in range(4, 13)} | {20: event(20, "eu", 3, 7)}
    assert by_id(lake) == expected
    assert {spec for spec, _ in partitions(lake.table(TABLE)).values()} == {0, 2}
    check_placement(lake.table(TABLE))
    assert lake.maintain(TABLE, "compact").has_changed
    assert by_id(lake) == expected
    found = partitions(lake.table(TABLE))
    assert sorted(map(str, found.values())) == ["(2, (7,))", "(2, (None,))"]
    check_placement(lake.table(TABLE))


def test_a_table_that_is_partitioned_by_a_floating_point_number_is_not_written(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark)
    schema = TableSchema(TABLE, (Column("id", INT64), Column("x", FLOAT64)), ("id",))
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": 1, "x": 0.5}, schema)]))
    evolve(lake, ("addField", "x"))
    with pytest.raises(NeedsUserError, match="RPL-3427"):
        consumer.apply_batch(batch(2, [insert({"id": 2, "x": 0.5}, schema)]))
    consumer.stop()


def test_partitions_that_a_table_cannot_have_are_refused_before_anything_is_written(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, partitioning={"shop.*": ["day(name)"]})
    consumer = lake.consumer()
    with pytest.raises(NeedsUserError, match="RPL-3430"):
        consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.stop()
    assert not list(lake.folder.rglob("*.parquet"))
    assert lake.tables() == []


def test_small_files_are_put_together_within_their_partitions_and_sorted(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, partitioning={"*": ["region"]}, sortOrder={"*": ["n desc"]})
    consumer = lake.consumer()
    for number in range(1, 10):
        rows = [event(number, "eu", n=number), event(100 + number, f"only {number}")]
        consumer.apply_batch(batch(number, [insert(r, EVENTS) for r in rows]))
    expected = by_id(lake)
    assert lake.maintain(TABLE, "compact").files_after == 10  # nine partitions of one file stay
    assert lake.maintain(TABLE, "compact").has_changed is False
    assert by_id(lake) == expected
    table = lake.table(TABLE)
    assert check_placement(table) == 10
    assert {task.file.sort_order_id for task in table.scan().plan_files()} == {1}
    consumer.apply_batch(batch(10, [update(event(5, "us"), EVENTS, before={"id": 5, "region": "eu"})]))
    consumer.stop()
    assert by_id(lake) == {**expected, 5: event(5, "us")}


def rows_of(*rows: dict[str, Any], schema: TableSchema) -> Any:
    """A reader of one chunk."""

    def read(chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(list(rows), schema=schema.arrow)

    return read


def copy(consumer: IcebergConsumer, name: str, schema: TableSchema, *rows: dict[str, Any]) -> int:
    chunks = [SnapshotChunk(0, {})]
    return consumer.load_whole(schema, name, at(1), chunks, rows_of(*rows, schema=schema), lambda: None)


def test_copies_are_written_by_partition_and_a_new_copy_keeps_the_partitions(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    """Also where other columns come with it; not where the one that it is partitioned by is gone."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, **BY_REGION)
    consumer = lake.consumer()
    rows = [event(key, ("eu", "us", None)[key % 3], n=key * 7 % 5) for key in range(30)]
    assert copy(consumer, "one", EVENTS, *rows) == 30
    assert check_placement(lake.table(TABLE)) == 3
    other = TableSchema(TABLE, (*EVENTS.columns[:3], Column("extra", STRING)), EVENTS.primary_key)
    less = [{"id": r["id"], "region": r["region"], "at": r["at"], "extra": "x"} for r in rows]
    assert copy(consumer, "two", other, *less) == 30
    table = lake.table(TABLE)
    assert table.schema().column_names == ["region", "at", "id", "extra"]
    assert check_placement(table) == 3
    assert table.sort_order().fields == []  # it began with a column that is gone
    without = TableSchema(TABLE, (EVENTS.columns[0], EVENTS.columns[2]), ("id",))
    with pytest.raises(SchemaDriftError, match="RPL-6428"):
        copy(consumer, "three", without, {"id": 1, "at": None})
    consumer.stop()
    assert len(by_id(lake)) == 30


def test_copies_by_executors_are_written_by_partition(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, **BY_REGION)
    consumer = lake.consumer()
    rows = [event(key, ("eu", "us")[key % 2], n=key * 7 % 5) for key in range(10)]
    chunks, read = [SnapshotChunk(0, {}), SnapshotChunk(1, {})], rows_of(*rows, schema=EVENTS)
    consumer.begin_snapshot(EVENTS, "one", at(1))
    assert consumer.load_chunks(EVENTS, "one", chunks, read) == 20
    consumer.finish_snapshot(EVENTS, "one", at(1))
    consumer.stop()
    assert check_placement(lake.table(TABLE)) == 4


def test_an_order_ends_before_a_column_that_is_gone(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    """What comes before it stays, also descending."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, sortOrder={"*": ["id", "n desc", "at"]})
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(event(key, "eu", n=key % 2), EVENTS) for key in range(6)]))
    id_, region, moment, n = EVENTS.columns
    least = TableSchema(TABLE, (id_, region), EVENTS.primary_key)
    for place, gone, schema in ((2, moment, TableSchema(TABLE, (id_, region, n), EVENTS.primary_key)), (3, n, least)):
        consumer.apply_ddl(alter(place, schema, Alter(AlterKind.DROP_COLUMN, previous=gone)))
        order = [field.direction.value for field in lake.table(TABLE).sort_order().fields]
        assert order == (["asc", "desc"] if gone is moment else ["asc"])
    consumer.apply_batch(batch(4, [insert({"id": 7, "region": "us"}, least)]))
    check_placement(lake.table(TABLE))
    assert sorted(by_id(lake)) == [0, 1, 2, 3, 4, 5, 7]


def test_columns_change_around_partitions_and_order(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    """New names and wider types are followed; a column that rows are sorted by goes with the order that begins with it."""
    lake = Warehouse(
        tmp_path / "lake", iceberg_spark, partitioning={"*": ["region", "n"]}, sortOrder={"*": ["at", "id desc"]}
    )
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(event(key, "eu", n=key % 2), EVENTS) for key in range(6)]))
    id_, region, moment, n = EVENTS.columns
    wide = TableSchema(TABLE, (id_, Column("area", STRING), Column("n", INT64)), ("id", "area"))
    consumer.apply_ddl(
        alter(
            2,
            wide,
            Alter(AlterKind.RENAME_COLUMN, Column("area", STRING), region),
            Alter(AlterKind.RETYPE_COLUMN, Column("n", INT64), n),
            Alter(AlterKind.DROP_COLUMN, previous=moment),
        )
    )
    changed = [update({"id": 1, "area": "eu", "n": 2**40}, wide), delete({"id": 2, "area": "eu"}, wide)]
    consumer.apply_batch(batch(3, changed))
    assert by_id(lake)[1] == {"id": 1, "area": "eu", "n": 2**40}
    assert sorted(by_id(lake)) == [0, 1, 3, 4, 5]
    table = lake.table(TABLE)
    check_placement(table)
    assert table.sort_order().fields == []
    for step, code in (
        (Alter(AlterKind.DROP_COLUMN, previous=Column("n", INT64)), "RPL-6428"),
        (Alter(AlterKind.RETYPE_COLUMN, Column("n", STRING), Column("n", INT64)), "RPL-6428"),
        (Alter(AlterKind.ADD_COLUMN, Column("region", STRING)), "RPL-6429"),
    ):
        with pytest.raises(SchemaDriftError, match=code):
            consumer.apply_ddl(alter(4, wide, step))
    more = TableSchema(TABLE, (*wide.columns, Column("x", STRING)), wide.primary_key)
    consumer.apply_ddl(alter(4, more, Alter(AlterKind.ADD_COLUMN, Column("x", STRING), default="old")))
    consumer.stop()
    assert {r["x"] for r in lake.rows(TABLE)} == {"old"}
    check_placement(lake.table(TABLE))


def test_a_history_is_partitioned_by_columns_of_either_kind(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    patterns = {"*": ["_op", "day(_source_timestamp)", "bucket(2, id)"]}
    lake = Warehouse(
        tmp_path / "lake", iceberg_spark, mode="append", partitioning=patterns, sortOrder={"*": ["_sequence_num"]}
    )
    consumer = lake.consumer()
    copy(consumer, "one", KEYED, row(1, "a"))
    consumer.apply_batch(batch(2, [insert(row(7)), update(row(1, "b")), delete({"id": 7})]))
    consumer.apply_ddl(ddl(3, DDLOperation.TRUNCATE_TABLE, sequence_number=9000))
    consumer.stop()
    assert sorted(r["_op"] for r in lake.rows(TABLE)) == ["D", "I", "S", "T", "U"]
    assert check_placement(lake.table(TABLE)) == 5


def test_files_have_the_compression_that_the_table_asks_for(tmp_path: Path, iceberg_spark: SparkSession) -> None:
    import pyarrow.parquet as pq

    properties = {"*": {"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "3"}}
    lake = Warehouse(tmp_path / "lake", iceberg_spark, tableProperties=properties)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.stop()
    [path] = lake.folder.rglob("*.parquet")
    assert pq.read_metadata(path).row_group(0).column(0).compression == "GZIP"
