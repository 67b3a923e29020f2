"""What is written for each change, and what readers that know the table's properties see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import BOOL, DATE, INT64, STRING, Array, DataType
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import DataError, NeedsUserError, SchemaDriftError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.merge_on_read.latest_warehouse import LatestWarehouse
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.plugins.targets.snapshot_rows import SnapshotRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("order_id", STRING), Column("ts", INT64), Column("item", STRING)), ("order_id",)
)
KEYLESS = TableSchema(ORDERS.table, ORDERS.columns)
LISTS = TableSchema(
    ORDERS.table,
    (*ORDERS.columns, Column("tags", Array(STRING)), Column("never", INT64, nullable=False)),
    ("order_id",),
)
MakeLake = Callable[..., LatestWarehouse]


@pytest.fixture
def make_lake(tmp_path: Path, iceberg_spark: SparkSession) -> MakeLake:
    return lambda **settings: LatestWarehouse(tmp_path / "lake", iceberg_spark, **settings)


def test_of_two_rows_of_a_key_the_one_with_the_larger_watermark_is_read(make_lake: MakeLake) -> None:
    """The first example of the seed: ts=100 and ts=200, in either order."""
    lake = make_lake(watermarkKeys=["ts"], tombstoneKey="deleted", formatVersion=3)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 100, "item": "a"}, ORDERS)]))
    consumer.apply_batch(batch(2, [update({"order_id": "1", "ts": 200, "item": "b"}, ORDERS)]))
    consumer.apply_batch(batch(3, [update({"order_id": "1", "ts": 150, "item": "c"}, ORDERS)]))
    assert [(r["ts"], r["item"]) for r in lake.rows(ORDERS.table)] == [(200, "b")]
    assert [(r["ts"], r["item"]) for r in lake.by_spark(ORDERS.table)] == [(200, "b")]
    assert lake.arrow(ORDERS.table).num_rows == 3


def test_a_key_whose_latest_row_is_a_tombstone_is_not_read(make_lake: MakeLake) -> None:
    """The second example of the seed: (ts=100), then a deletion, which the log shows by the key alone."""
    lake = make_lake(watermarkKeys=["ts"], tombstoneKey="deleted")
    consumer = lake.consumer()
    rows: list[dict[str, Any]] = [{"order_id": "2", "ts": 100, "item": "a"}, {"order_id": "3", "ts": None, "item": "n"}]
    consumer.apply_batch(batch(1, [insert(one, ORDERS) for one in rows]))
    consumer.apply_batch(batch(2, [delete({"order_id": "2"}, ORDERS), delete({"order_id": "3"}, ORDERS)]))
    assert lake.rows(ORDERS.table) == lake.by_spark(ORDERS.table) == []
    found = {(r["order_id"], r["ts"], r["deleted"]) for r in lake.arrow(ORDERS.table).to_pylist()}
    assert found == {("2", 100, False), ("2", 100, True), ("3", None, False), ("3", None, True)}


def test_each_change_is_one_row_of_a_new_file_and_no_file_loses_any(make_lake: MakeLake) -> None:
    lake = make_lake()
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b")), delete({"id": 1}), insert(row(2, "a"))]))
    consumer.apply_batch(batch(2, [update({"id": 3, "name": "c"}, before={"id": 2}), delete(row(3, "c"))]))
    rows = sorted(lake.arrow(TABLE).to_pylist(), key=lambda one: (one["_sequence_num"], one["id"]))
    assert [(r["id"], r["name"], r["_is_deleted"]) for r in rows] == [
        *((1, "a", False), (1, "b", False), (1, None, True), (2, "a", False)),
        *((2, None, True), (3, "c", False), (3, "c", True)),
    ]
    assert lake.rows(TABLE) == []
    assert {summary["operation"] for summary in lake.summaries(TABLE)} == {"append"}
    assert len(lake.table(TABLE).inspect.delete_files()) == 0


@pytest.mark.parametrize(("kind", "values"), [(BOOL, (False, None)), (STRING, (None, None)), (DATE, (None, None))])
def test_a_column_of_the_source_can_be_the_tombstone_key(
    make_lake: MakeLake, kind: DataType, values: tuple[Any, Any]
) -> None:
    schema = TableSchema(TABLE, (Column("id", INT64), Column("gone", kind)), ("id",))
    lake = make_lake(tombstoneKey="gone")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": key, "gone": value}, schema) for key, value in enumerate(values)]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == sorted(r["id"] for r in lake.by_spark()) == [0, 1]
    consumer.apply_batch(batch(2, [delete({"id": 0}, schema)]))
    assert [r["id"] for r in lake.rows(TABLE)] == [r["id"] for r in lake.by_spark()] == [1]
    assert "_is_deleted" not in lake.arrow(TABLE).column_names


def test_a_text_can_be_the_tombstone_key_with_a_value_that_says_so(make_lake: MakeLake) -> None:
    lake = make_lake(tombstoneKey="state", tombstoneStringKeyValue="it's gone")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "b")), delete({"id": 1})]))
    assert [r["id"] for r in lake.rows(TABLE)] == [r["id"] for r in lake.by_spark()] == [2]
    assert lake.properties(TABLE)["tombstone_string_key_value"] == "it's gone"
    assert {r["state"] for r in lake.arrow(TABLE).to_pylist()} == {None, "it's gone"}


def test_what_an_update_does_not_send_comes_from_the_latest_row(make_lake: MakeLake) -> None:
    """Not from the one that was written last: the watermark is the source's. A move without one in the log is refused."""
    lake = make_lake(watermarkKeys=["ts"])
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 200, "item": "new"}, ORDERS)]))
    consumer.apply_batch(batch(2, [update({"order_id": "1", "ts": 100, "item": "late"}, ORDERS)]))
    consumer.apply_batch(batch(3, [update({"order_id": "1", "ts": 300}, ORDERS)]))
    assert [(r["ts"], r["item"]) for r in lake.rows(ORDERS.table)] == [(300, "new")]
    with pytest.raises(DataError) as moved:
        consumer.apply_batch(batch(4, [update({"order_id": "3", "item": "b"}, ORDERS, {"order_id": "1"})]))
    consumer.apply_batch(batch(4, [delete({"order_id": "1"}, ORDERS)]))
    with pytest.raises(DataError) as lost:
        consumer.apply_batch(batch(5, [update({"order_id": "1", "ts": 400}, ORDERS)]))
    assert (moved.value.code, lost.value.code) == ("RPL-5426", "RPL-5421")
    assert lake.rows(ORDERS.table) == []


def at_position(changes: Any, position: int) -> Any:
    changes.identity = type(changes.identity)(1, 1, 1, changes.rows, at(position))
    return changes


def test_copied_rows_are_older_than_every_change(make_lake: MakeLake) -> None:
    """Also than a change that is numbered from 0; a second copy begins from scratch."""
    lake = make_lake()
    consumer, chunk = lake.consumer(), [SnapshotChunk(0, {})]
    for position in (1, 11):
        rows = [(key, "copied", None) for key in (1, 2, 3)]
        consumer.begin_snapshot(KEYED, f"plan {position}", at(position))
        consumer.load_chunks(KEYED, f"plan {position}", chunk, SnapshotRows(KEYED, rows))
        consumer.finish_snapshot(KEYED, f"plan {position}", at(position + 1))
        changes = batch(0, [update(row(1, "changed")), delete({"id": 2})], overlap=True)
        consumer.apply_batch(at_position(changes, position + 2))
        assert lake.names() == [(1, "changed"), (3, "copied")]
    consumer.load_whole(KEYED, "beside", at(21), chunk, SnapshotRows(KEYED, [(1, "copied", None)]), lambda: None)
    assert lake.names() == [(1, "copied")]
    consumer.apply_batch(batch(22, [update(row(1, "changed"))]))
    assert lake.names() == [(1, "changed")]


def test_changes_that_are_numbered_lower_than_before_are_newer_all_the_same(make_lake: MakeLake) -> None:
    """Where a publication has lost a table, the same log is numbered lower."""
    lake = make_lake()
    consumer = lake.consumer()
    consumer.apply_batch(batch(5, [insert(row(1, "first"))]))
    for position, name in ((6, "second"), (7, "third")):
        consumer.apply_batch(at_position(batch(0, [update(row(1, name))]), position))
        assert lake.names() == [(1, name)]
    assert consumer.progress(TABLE).last_sequence == 5003  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("schema", "settings", "why"),
    [
        (KEYLESS, {}, "no key"),
        (ORDERS, {"watermarkKeys": ["nowhere"]}, "no column 'nowhere'"),
        (LISTS, {"tombstoneKey": "tags"}, "of no primitive type"),
        (LISTS, {"tombstoneKey": "never"}, "never NULL"),
        (ORDERS, {"tombstoneKey": "ts", "tombstoneStringKeyValue": "x"}, "not a text"),
        (ORDERS, {"watermarkKeys": ["ts"], "tombstoneKey": "ts"}, "two parts"),
        (ORDERS, {"tombstoneKey": "_sequence_num"}, "two parts"),
        (ORDERS, {"tombstoneKey": "_source_timestamp"}, "two parts"),
    ],
)
def test_keys_that_cannot_work_are_refused_before_anything_is_written(
    make_lake: MakeLake, schema: TableSchema, settings: dict[str, Any], why: str
) -> None:
    lake = make_lake(**settings)
    calls: list[Callable[[], object]] = [
        lambda: lake.consumer().apply_ddl(ddl(1, DDLOperation.CREATE_TABLE, schema)),
        lambda: lake.consumer().begin_snapshot(schema, "plan", at(1)),
        lambda: lake.consumer().apply_batch(batch(1, [insert({"order_id": "1"}, schema)])),
    ]
    for call in calls:
        with pytest.raises(NeedsUserError, match=why) as raised:
            call()
        assert (raised.value.code, raised.value.table) == ("RPL-3444", str(schema.table))
    assert lake.tables() == []
    (finding,) = lake.target.create_table_assessor().assess_table(schema).findings
    assert (finding.code, finding.severity) == ("RPL-3444", Severity.ERROR)


def test_a_column_of_the_source_with_the_name_of_one_of_ours_is_refused(make_lake: MakeLake) -> None:
    schema = TableSchema(TABLE, (*KEYED.columns, Column("_sequence_num", INT64)), ("id",))
    with pytest.raises(SchemaDriftError) as raised:
        make_lake().consumer().apply_batch(batch(1, [insert(row(1, "a") | {"_sequence_num": 1}, schema)]))
    assert raised.value.code == "RPL-6421"


@pytest.mark.parametrize("settings", [{"watermarkKeys": ["note"]}, {"mode": "merge"}, {"tombstoneKey": "gone"}])
def test_a_table_of_another_mode_or_of_other_keys_is_refused_until_it_is_copied_again(
    make_lake: MakeLake, tmp_path: Path, iceberg_spark: SparkSession, settings: dict[str, Any]
) -> None:
    lake = make_lake()
    lake.consumer().apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b"))]))
    other = Warehouse(tmp_path / "lake", iceberg_spark, **{"mode": "merge-on-read", **settings})
    consumer, chunk = other.consumer(epoch=2), [SnapshotChunk(0, {})]
    with pytest.raises(SchemaDriftError) as raised:
        consumer.apply_batch(batch(2, [update(row(1, "c", "n"))], epoch=2))
    assert raised.value.code == "RPL-6425"
    assert lake.names() == [(1, "b")]
    consumer.load_whole(KEYED, "plan", at(10), chunk, SnapshotRows(KEYED, [(1, "d", "n")]), lambda: None)
    consumer.apply_batch(batch(11, [update(row(1, "e", "n")), insert(row(2, "e", "n"))], epoch=2))
    assert sorted((r["id"], r["name"]) for r in other.rows(TABLE)) == [(1, "e"), (2, "e")]
    assert ("watermark_key" in other.properties(TABLE)) is (other.config.mode == "merge-on-read")
    back = lake.consumer(epoch=3)
    back.rewind_table(TABLE, at(10))
    assert sorted((r["id"], r["name"]) for r in other.rows(TABLE)) == [(1, "d")]


@pytest.mark.parametrize(
    "settings",
    [
        {"watermarkKeys": ["a"]},
        {"tombstoneKey": "a"},
        {"mode": "merge-on-read", "watermarkKeys": ["a", "a"]},
        {"mode": "append", "tableProperties": {"*": {"primary_key": '["id"]'}}},
        {"mode": "merge-on-read", "tableProperties": {"*": {"tombstone_string_key_value": "x"}}},
    ],
)
def test_settings_of_the_mode_are_refused_in_others_and_a_key_twice(
    tmp_path: Path, iceberg_spark: SparkSession, settings: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"of the mode merge-on-read|names a column twice|follows from the mode"):
        Warehouse(tmp_path / "lake", iceberg_spark, **settings)
