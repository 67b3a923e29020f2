"""Tables of the mode `merge-on-read`: what is written for each change, and what readers that know the table's properties see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import BOOL, DATE, INSTANT, INT64, STRING, Array, DataType, Decimal
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import DataError, NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.merge_on_read import MergeOnReadDefinition, latest_rows
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.delta.merge_on_read.latest import LatestLake
from tests.plugins.targets.snapshot_rows import SnapshotRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("order_id", STRING), Column("ts", INT64), Column("item", STRING)), ("order_id",)
)
MakeLake = Callable[..., LatestLake]


@pytest.fixture
def make_lake(tmp_path: Path, spark: SparkSession) -> MakeLake:
    return lambda **settings: LatestLake(tmp_path / "lake", spark, **settings)


def by_spark(lake: LatestLake, table: TableId) -> list[dict[str, Any]]:
    """What the SDK's reader sees, which is given nothing but the table's properties."""
    spark = lake.spark()
    path = f"delta.`{lake.path(table)}`"
    properties = {found["key"]: found["value"] for found in spark.sql(f"SHOW TBLPROPERTIES {path}").collect()}
    definition = MergeOnReadDefinition.from_properties(properties)
    return [found.asDict() for found in latest_rows(spark.read.table(path), definition).collect()]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=str)


def actions(lake: Lake, table: TableId, version: int) -> list[dict[str, Any]]:
    log = lake.path(table) / "_delta_log" / f"{version:020}.json"
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_of_two_rows_of_a_key_the_one_with_the_larger_watermark_is_read(make_lake: MakeLake) -> None:
    """The first example of the seed: ts=100 and ts=200, in either order."""
    lake = make_lake(watermarkKeys=["ts"], tombstoneKey="deleted")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 100, "item": "a"}, ORDERS)]))
    consumer.apply_batch(batch(2, [update({"order_id": "1", "ts": 200, "item": "b"}, ORDERS)]))
    consumer.apply_batch(batch(3, [update({"order_id": "1", "ts": 150, "item": "c"}, ORDERS)]))
    assert [(r["ts"], r["item"]) for r in lake.rows(ORDERS.table)] == [(200, "b")]
    assert [(r["ts"], r["item"]) for r in by_spark(lake, ORDERS.table)] == [(200, "b")]
    assert lake.arrow(ORDERS.table).num_rows == 3


def test_a_key_whose_latest_row_is_a_tombstone_is_not_read(make_lake: MakeLake) -> None:
    """The second example of the seed: (ts=100), then a deletion, which the log shows by the key alone."""
    lake = make_lake(watermarkKeys=["ts"], tombstoneKey="deleted")
    consumer = lake.consumer()
    rows: list[dict[str, Any]] = [{"order_id": "2", "ts": 100, "item": "a"}, {"order_id": "3", "ts": None, "item": "n"}]
    consumer.apply_batch(batch(1, [insert(one, ORDERS) for one in rows]))
    consumer.apply_batch(batch(2, [delete({"order_id": "2"}, ORDERS), delete({"order_id": "3"}, ORDERS)]))
    assert lake.rows(ORDERS.table) == by_spark(lake, ORDERS.table) == []
    found = {(r["order_id"], r["ts"], r["deleted"]) for r in lake.arrow(ORDERS.table).to_pylist()}
    assert found == {("2", 100, False), ("2", 100, True), ("3", None, False), ("3", None, True)}
    again = [insert({"order_id": key, "ts": 100, "item": "b"}, ORDERS) for key in ("2", "3")]
    consumer.apply_batch(batch(3, [*again, delete(rows[0] | {"item": "b"}, ORDERS)]))
    assert (
        [r["order_id"] for r in lake.rows(ORDERS.table)]
        == [r["order_id"] for r in by_spark(lake, ORDERS.table)]
        == ["3"]
    )


def test_each_change_is_one_row_of_a_new_file_and_no_file_is_taken_away(make_lake: MakeLake) -> None:
    lake = make_lake(metadataColumns=["op"])
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b")), delete({"id": 1}), insert(row(2, "a"))]))
    consumer.apply_batch(batch(2, [update({"id": 3, "name": "c"}, before={"id": 2}), delete(row(3, "c"))]))
    rows = sorted(lake.arrow(TABLE).to_pylist(), key=lambda one: (one["_sequence_num"], one["id"]))
    assert [(r["id"], r["name"], r["_op"], r["_is_deleted"]) for r in rows] == [
        *((1, "a", "I", False), (1, "b", "U", False), (1, None, "D", True), (2, "a", "I", False)),
        *((2, None, "D", True), (3, "c", "U", False), (3, "c", "D", True)),
    ]
    assert lake.rows(TABLE) == []
    for version in range(lake.version(TABLE) + 1):
        assert not any("remove" in action for action in actions(lake, TABLE, version))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (BOOL, (False, None)),
        (STRING, (None, None)),
        (INT64, (None, None)),
        (DATE, (None, None)),
        (INSTANT, (None, None)),
        (Decimal(2, 2), (None, None)),
    ],
)
def test_a_column_of_the_source_of_any_primitive_type_can_be_the_tombstone_key(
    make_lake: MakeLake, kind: DataType, values: tuple[Any, Any]
) -> None:
    schema = TableSchema(TABLE, (Column("id", INT64), Column("gone", kind)), ("id",))
    lake = make_lake(tombstoneKey="gone")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": key, "gone": value}, schema) for key, value in enumerate(values)]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == sorted(r["id"] for r in by_spark(lake, TABLE)) == [0, 1]
    consumer.apply_batch(batch(2, [delete({"id": 0}, schema)]))
    assert [r["id"] for r in lake.rows(TABLE)] == [r["id"] for r in by_spark(lake, TABLE)] == [1]
    assert "_is_deleted" not in lake.arrow(TABLE).column_names


def test_a_text_can_be_the_tombstone_key_with_a_value_that_says_so(make_lake: MakeLake) -> None:
    lake = make_lake(tombstoneKey="state", tombstoneStringKeyValue="it's gone")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "b")), delete({"id": 1})]))
    assert [r["id"] for r in lake.rows(TABLE)] == [r["id"] for r in by_spark(lake, TABLE)] == [2]
    assert lake.properties(TABLE)["tombstone_string_key_value"] == "it's gone"
    assert {r["state"] for r in lake.arrow(TABLE).to_pylist()} == {None, "it's gone"}


def test_a_row_that_moves_takes_its_watermark_to_the_tombstone_of_its_former_key(make_lake: MakeLake) -> None:
    lake = make_lake(watermarkKeys=["ts"])
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 100, "item": "a"}, ORDERS)]))
    consumer.apply_batch(batch(2, [update({"order_id": "2", "ts": 100, "item": "a"}, ORDERS, {"order_id": "1"})]))
    assert [r["order_id"] for r in lake.rows(ORDERS.table)] == ["2"]
    version = lake.version(ORDERS.table)
    with pytest.raises(DataError) as raised:
        consumer.apply_batch(batch(3, [update({"order_id": "3", "item": "b"}, ORDERS, {"order_id": "2"})]))
    assert raised.value.code == "RPL-5408"
    assert lake.version(ORDERS.table) == version


def test_what_an_update_does_not_send_comes_from_the_latest_row(make_lake: MakeLake) -> None:
    """Not from the one that was written last: the watermark is the source's."""
    lake = make_lake(watermarkKeys=["ts"])
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 200, "item": "new"}, ORDERS)]))
    consumer.apply_batch(batch(2, [update({"order_id": "1", "ts": 100, "item": "late"}, ORDERS)]))
    consumer.apply_batch(batch(3, [update({"order_id": "1", "ts": 300}, ORDERS)]))
    assert [(r["ts"], r["item"]) for r in lake.rows(ORDERS.table)] == [(300, "new")]
    consumer.apply_batch(batch(4, [delete({"order_id": "1"}, ORDERS)]))
    with pytest.raises(DataError) as raised:
        consumer.apply_batch(batch(5, [update({"order_id": "1", "ts": 400}, ORDERS)]))
    assert raised.value.code == "RPL-5401"


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
        assert sorted((r["id"], r["name"]) for r in lake.rows(TABLE)) == [(1, "changed"), (3, "copied")]
    consumer.load_whole(KEYED, "beside", at(21), chunk, SnapshotRows(KEYED, [(1, "copied", None)]), lambda: None)
    assert [r["name"] for r in lake.rows(TABLE)] == ["copied"]
    consumer.apply_batch(batch(22, [update(row(1, "changed"))]))
    assert [r["name"] for r in lake.rows(TABLE)] == ["changed"]


def at_position(changes: Any, position: int) -> Any:
    changes.identity = type(changes.identity)(1, 1, 1, changes.rows, at(position))
    return changes


def test_changes_that_are_numbered_lower_than_before_are_newer_all_the_same(make_lake: MakeLake) -> None:
    """Where a publication has lost a table, the same log is numbered lower."""
    lake = make_lake()
    consumer = lake.consumer()
    consumer.apply_batch(batch(5, [insert(row(1, "first"))]))
    for position, name in ((6, "second"), (7, "third")):
        consumer.apply_batch(at_position(batch(0, [update(row(1, name))]), position))
        assert [r["name"] for r in lake.rows(TABLE)] == [name]
    assert consumer.progress(TABLE).last_sequence == 5003  # type: ignore[union-attr]


def test_a_renamed_key_is_the_key_of_readers(make_lake: MakeLake) -> None:
    lake = make_lake(watermarkKeys=["ts"])
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 1, "item": "a"}, ORDERS)]))
    renamed = TableSchema(ORDERS.table, (Column("number", STRING), *ORDERS.columns[1:]), ("number",))
    step = Alter(AlterKind.RENAME_COLUMN, renamed["number"], ORDERS["order_id"])
    consumer.apply_ddl(alter(2, renamed, step))
    consumer.apply_batch(batch(3, [update({"number": "1", "ts": 2, "item": "b"}, renamed)]))
    assert [(r["number"], r["item"]) for r in by_spark(lake, ORDERS.table)] == [("1", "b")]
    lake.consumer(epoch=2).rewind_table(ORDERS.table, at(1))
    assert [(r["order_id"], r["item"]) for r in by_spark(lake, ORDERS.table)] == [("1", "a")]


TWO = TableSchema(ORDERS.table, ORDERS.columns, ("order_id", "item"))
WITHOUT_TS = TableSchema(ORDERS.table, (ORDERS["order_id"], ORDERS["item"]), ("order_id",))
KEYLESS = TableSchema(ORDERS.table, ORDERS.columns)


@pytest.mark.parametrize(
    ("after", "step"),
    [
        (TWO, Alter(AlterKind.CHANGE_KEY)),
        (KEYLESS, Alter(AlterKind.CHANGE_KEY)),
        (WITHOUT_TS, Alter(AlterKind.DROP_COLUMN, previous=ORDERS["ts"])),
    ],
)
def test_a_change_of_structure_that_takes_a_key_is_refused(
    make_lake: MakeLake, after: TableSchema, step: Alter
) -> None:
    lake = make_lake(watermarkKeys=["ts"])
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"order_id": "1", "ts": 1, "item": "a"}, ORDERS)]))
    version = lake.version(ORDERS.table)
    with pytest.raises(SchemaDriftError) as raised:
        consumer.apply_ddl(alter(2, after, step))
    assert raised.value.code == "RPL-6414"
    assert lake.version(ORDERS.table) == version
    consumer.apply_ddl(ddl(3, DDLOperation.TRUNCATE_TABLE, ORDERS))
    assert lake.rows(ORDERS.table) == by_spark(lake, ORDERS.table) == []


LISTS = TableSchema(
    ORDERS.table,
    (*ORDERS.columns, Column("tags", Array(STRING)), Column("never", INT64, nullable=False)),
    ("order_id",),
)


@pytest.mark.parametrize(
    ("schema", "settings", "why"),
    [
        (KEYLESS, {}, "no key"),
        (ORDERS, {"watermarkKeys": ["nowhere"]}, "no column 'nowhere'"),
        (ORDERS, {"watermarkKeys": ["_is_deleted"]}, "no column '_is_deleted'"),
        (LISTS, {"watermarkKeys": ["tags"]}, "of no primitive type"),
        (LISTS, {"tombstoneKey": "tags"}, "of no primitive type"),
        (LISTS, {"tombstoneKey": "never"}, "never NULL"),
        (ORDERS, {"tombstoneKey": "ts", "tombstoneStringKeyValue": "x"}, "not a text"),
        (ORDERS, {"tombstoneKey": "order_id"}, "two parts"),
        (ORDERS, {"watermarkKeys": ["order_id"]}, "two parts"),
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
        assert (raised.value.code, raised.value.table) == ("RPL-3417", str(schema.table))
    assert not lake.path(schema.table).joinpath("_delta_log").exists()
    (finding,) = lake.target.create_table_assessor().assess_table(schema).findings
    assert (finding.code, finding.severity) == ("RPL-3417", Severity.ERROR)


def test_a_table_of_the_other_mode_or_of_other_keys_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """Its columns may be the same ones."""
    merged = Lake(tmp_path / "lake", spark, softDeletes=True)
    lakes = [LatestLake(tmp_path / "lake", spark), LatestLake(tmp_path / "lake", spark, watermarkKeys=["note"])]
    merged.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(SchemaDriftError) as raised:
        lakes[0].consumer().apply_batch(batch(9, [insert(row(1, "a"))]))
    assert raised.value.code == "RPL-6405"
    consumer, chunk = lakes[0].consumer(), [SnapshotChunk(0, {})]
    consumer.load_whole(KEYED, "plan", at(10), chunk, SnapshotRows(KEYED, [(1, "b", None)]), lambda: None)
    assert [r["name"] for r in by_spark(lakes[0], TABLE)] == ["b"]
    for other in (lakes[1], merged):
        with pytest.raises(SchemaDriftError) as raised:
            other.consumer().apply_batch(batch(11, [insert(row(1, "a"))]))
        assert raised.value.code == "RPL-6405"
    merged.consumer().load_whole(KEYED, "back", at(12), chunk, SnapshotRows(KEYED, [(1, "c", None)]), lambda: None)
    assert not {"primary_key", "watermark_key", "tombstone_key"} & lakes[0].properties(TABLE).keys()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"mode": "merge-on-read", "softDeletes": True}, "softDeletes"),
        ({"mode": "merge-on-read", "watermarkKeys": ["a", "a"]}, "twice"),
        ({"watermarkKeys": ["a"]}, "of the mode merge-on-read"),
        ({"tombstoneKey": "a"}, "of the mode merge-on-read"),
        ({"tombstoneStringKeyValue": ""}, "of the mode merge-on-read"),
    ],
)
def test_settings_of_the_other_mode_are_refused(settings: dict[str, Any], why: str) -> None:
    from replicator_target_delta.config import DeltaConfig

    with pytest.raises(ValueError, match=why):
        DeltaConfig(path="/lake", **settings)
