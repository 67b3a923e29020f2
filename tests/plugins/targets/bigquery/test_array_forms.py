"""Arrays and JSON in each mode: native arrays, JSON, and tables that have another form already."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from replicator_sdk.datatype import INSTANT, INT64, JSON, STRING, Array, DataType, Decimal, Record
from replicator_sdk.errors import DataError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableId, TableSchema, replace_columns
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.schema.fields import Field
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY, settle
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, at, batch, delete, insert, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

TAGS = Column("tags", Array(STRING))
SCHEMA = replace_columns(KEYED, (KEYED["id"], TAGS, Column("note", STRING)))
MERGING: dict[str, Any] = {
    "mode": "merge-flush",
    "upsert_enabled": True,
    "delete_enabled": True,
    "kafka_key_field_name": KEY,
    "merge_interval_ms": 3_600_000,
}
MODES: dict[str, dict[str, Any]] = {
    "batch": {},
    "merge-flush": MERGING,
    "insertAll": MERGING | {"use_storage_write_api": False},
    "cdc": {"mode": "cdc"},
}
Made = Callable[..., Project]


@pytest.fixture(params=MODES)
def made(request: pytest.FixtureRequest, bigquery_emulators: Emulators, tasks_run_here: Callable[[], Any]) -> Made:
    """Makes projects of one mode, by default with native arrays."""

    def make(**settings: Any) -> Project:
        chosen = MODES[request.param]
        if request.param == "cdc":
            chosen = chosen | {"storage_write_endpoint": bigquery_emulators.streaming.endpoint}
        project = Project(bigquery_emulators, **{"arrays": "native", **chosen, **settings})
        project.spark = tasks_run_here
        return project

    return make


def given(key: int, tags: Sequence[Any] | None, note: str | None = None) -> dict[str, Any]:
    return {"id": key, "tags": tags, "note": note}


def apply(consumer: BigQueryConsumer, position: int, changes: list[Any]) -> None:
    """Apply a batch, and merge it where the mode streams ahead."""
    consumer.apply_batch(batch(position, changes))
    settle(consumer)


def arrays(project: Project, column: str = "tags") -> list[list[Any]]:
    """Each row's key and array, by BigQuery's own function."""
    return [
        [int(key), None if value is None else json.loads(value)]
        for key, value in project.select(f"SELECT id, TO_JSON_STRING({column}) FROM {{d}}.customers ORDER BY id")
    ]


def field(consumer: BigQueryConsumer, project: Project, column: str = "tags") -> str:
    """The type of a column of the table, as SQL writes it."""
    there = consumer._clients.bigquery.get_table(f"{project.dataset}.customers")
    (found,) = (f for f in there.schema if f.name == column)
    return Field.from_api(found.to_api_repr()).sql


def snapshot(consumer: BigQueryConsumer, schema: TableSchema, rows: list[dict[str, Any]], plan: str = "plan") -> None:
    """Copy the rows as one chunk."""

    def read(chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        assert chunk.index == 0
        yield pa.RecordBatch.from_pylist(rows, schema=schema.arrow)

    consumer.begin_snapshot(schema, plan, at(1))
    consumer.load_chunks(schema, plan, [SnapshotChunk(0, {})], read)
    consumer.finish_snapshot(schema, plan, at(1))


def test_an_array_is_an_array_from_the_copy_through_every_kind_of_change(made: Made) -> None:
    project = made()
    consumer = project.consumer()
    snapshot(consumer, SCHEMA, [given(1, ["a", "b"]), given(2, []), given(3, None)])
    assert field(consumer, project) == "ARRAY<STRING>"
    assert arrays(project) == [[1, ["a", "b"]], [2, []], [3, []]]
    apply(consumer, 2, [insert(given(4, ["x"]), SCHEMA), update(given(1, ["c"]), SCHEMA), delete({"id": 2}, SCHEMA)])
    apply(consumer, 3, [update(given(5, None), SCHEMA, before={"id": 4}), insert(given(6, []), SCHEMA)])
    assert arrays(project) == [[1, ["c"]], [3, []], [5, []], [6, []]]
    consumer.stop()


def test_arrays_of_every_type_are_native_and_arrays_of_arrays_stay_wrapped(made: Made) -> None:
    columns: tuple[tuple[str, DataType, list[Any], str], ...] = (
        ("numbers", Array(INT64), [1, 2], "ARRAY<INT64>"),
        ("amounts", Array(Decimal(6, 2)), [Number("1.50")], "ARRAY<NUMERIC>"),
        ("times", Array(INSTANT), [], "ARRAY<TIMESTAMP>"),
        ("parts", Array(Record((("x", INT64),))), [{"x": 7}], "ARRAY<STRUCT<`x` INT64>>"),
        ("grid", Array(Array(INT64)), [[1], []], ""),
    )
    wrapped = "STRUCT<`list` ARRAY<STRUCT<`element` {}>>>"
    schema = replace_columns(KEYED, (KEYED["id"], *(Column(n, kind) for n, kind, _, _ in columns)))
    project = made()
    consumer = project.consumer()
    apply(consumer, 1, [insert({"id": 1} | {n: value for n, _, value, _ in columns}, schema)])
    for name, _, _, sql in columns:
        found = field(consumer, project, name)
        found = found.replace("(6, 2)", "")  # the emulator forgets the digits of arrays
        assert found == (sql or wrapped.format(wrapped.format("INT64")))
    assert arrays(project, "numbers") == [[1, [1, 2]]]
    assert project.select("SELECT p.x FROM {d}.customers, UNNEST(parts) AS p") == [["7"]]
    assert project.select("SELECT CAST(a AS STRING) FROM {d}.customers, UNNEST(amounts) AS a")[0][0].startswith("1.5")
    consumer.stop()


def test_a_null_element_stops_the_table_before_anything_is_written(made: Made) -> None:
    project = made()
    consumer = project.consumer()
    apply(consumer, 1, [insert(given(1, ["a"]), SCHEMA)])
    with pytest.raises(DataError, match=r"RPL-6541: an array in column tags .*shop\.customers.*arrays"):
        apply(consumer, 2, [insert(given(2, ["a", None]), SCHEMA)])
    assert arrays(project) == [[1, ["a"]]]
    consumer.stop()


def test_null_elements_are_left_out_where_out_of_range_allows_it(made: Made) -> None:
    project = made(out_of_range="null")
    consumer = project.consumer()
    apply(consumer, 1, [insert(given(1, ["a", None, "b"]), SCHEMA), insert(given(2, [None]), SCHEMA)])
    assert arrays(project) == [[1, ["a", "b"]], [2, []]]
    consumer.stop()


def test_a_table_of_an_earlier_version_keeps_its_wrapped_arrays(made: Made) -> None:
    """Through batches, an added column, a replaced table and a copy from scratch."""
    earlier = made(arrays="wrapped")
    consumer = earlier.consumer()
    apply(consumer, 1, [insert(given(1, ["a", None]), SCHEMA)])
    wrapped = field(consumer, earlier)
    consumer.stop()
    project = made(dataset_name=earlier.dataset)
    project.dataset = earlier.dataset
    consumer = project.consumer(epoch=2)
    apply(consumer, 2, [insert(given(2, None), SCHEMA), update(given(1, [None, "c"]), SCHEMA)])
    assert (arrays(project), field(consumer, project)) == (
        [[1, {"list": [{"element": None}, {"element": "c"}]}], [2, None]],
        wrapped,
    )
    wider = replace_columns(SCHEMA, (*SCHEMA.columns, Column("more", Array(INT64))))
    consumer.apply_ddl(alter(3, wider, Alter(AlterKind.ADD_COLUMN, Column("more", Array(INT64)))))
    assert (field(consumer, project), field(consumer, project, "more")) == (wrapped, "ARRAY<INT64>")
    if project.config.mode != "cdc":  # the tests' change ingestion writes no nested rows after an ALTER TABLE
        apply(consumer, 4, [insert(given(3, []) | {"more": [7]}, wider)])
        assert arrays(project, "more")[2] == [3, [7]]
    snapshot(
        consumer, SCHEMA, [given(5, ["n", None])], plan="second"
    )  # the table has a column too many: it is replaced
    assert field(consumer, project) == wrapped
    assert arrays(project) == [[5, {"list": [{"element": "n"}, {"element": None}]}]]
    consumer.stop()


def test_json_is_json_where_the_settings_say_so_and_keys_are_text(made: Made) -> None:
    schema = replace_columns(KEYED, (KEYED["id"], Column("data", JSON), Column("note", STRING)))
    project = made(json_columns="json")
    consumer = project.consumer()
    apply(consumer, 1, [insert({"id": 1, "data": '{"a": [1, 2]}', "note": None}, schema)])
    apply(consumer, 2, [insert({"id": 2, "data": None, "note": None}, schema)])
    assert field(consumer, project, "data") == "JSON"
    found = project.select("SELECT JSON_VALUE(data, '$.a[1]') FROM {d}.customers ORDER BY id")
    assert found == [["2"], [None]]
    consumer.stop()


def test_a_table_without_a_key_finds_rows_by_their_arrays(bigquery_emulators: Emulators) -> None:
    schema = TableSchema(TableId("shop", "customers"), (Column("id", INT64), TAGS))
    project = Project(bigquery_emulators, arrays="native", json_columns="json")
    consumer = project.consumer()
    one, other = {"id": 1, "tags": ["a"]}, {"id": 1, "tags": None}
    apply(consumer, 1, [insert(one, schema), insert(one, schema), insert(other, schema)])
    apply(consumer, 2, [delete(one, schema), delete(other, schema)])
    assert arrays(project) == [[1, ["a"]]]
    consumer.stop()


def test_values_that_an_update_lacks_are_filled_into_arrays_and_json(bigquery_emulators: Emulators) -> None:
    schema = replace_columns(SCHEMA, (*SCHEMA.columns, Column("data", JSON)))
    project = Project(bigquery_emulators, arrays="native", json_columns="json")
    consumer = project.consumer()
    apply(consumer, 1, [insert(given(1, ["a"]) | {"data": '{"x": 1}'}, schema)])
    apply(consumer, 2, [update({"id": 1, "note": "n"}, schema)])
    assert arrays(project) == [[1, ["a"]]]
    assert arrays(project, "data") == [[1, {"x": 1}]]
    consumer.stop()


def test_rows_that_are_appended_have_native_arrays(bigquery_emulators: Emulators) -> None:
    appending = MERGING | {"upsert_enabled": False, "delete_enabled": False, "kafka_key_field_name": ""}
    project = Project(bigquery_emulators, **{"arrays": "native", **appending})
    consumer = project.consumer()
    apply(consumer, 1, [insert(given(1, ["a"]), SCHEMA), update(given(1, None), SCHEMA)])
    assert arrays(project) == [[1, ["a"]], [1, []]]
    consumer.stop()


@pytest.mark.parametrize("mode", ["batch", "merge-flush"])
def test_arrays_in_a_key_are_wrapped(bigquery_emulators: Emulators, mode: str) -> None:
    schema = replace(SCHEMA, primary_key=("id", "tags"))
    project = Project(bigquery_emulators, **{"arrays": "native", **MODES[mode]})
    consumer = project.consumer()
    apply(consumer, 1, [insert(given(1, ["a", None]), schema), insert(given(1, ["a"]), schema)])
    apply(consumer, 2, [update(given(1, ["a"], "new"), schema)])
    assert field(consumer, project).startswith("STRUCT<`list`")
    notes = project.select("SELECT note FROM {d}.customers ORDER BY note")
    assert sorted(notes, key=str) == sorted([["new"], [None]], key=str)
    consumer.stop()


def test_a_table_whose_native_array_joins_the_key_is_copied_again(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators, arrays="native")
    consumer = project.consumer()
    apply(consumer, 1, [insert(given(1, ["a"]), SCHEMA)])
    schema = replace(SCHEMA, primary_key=("id", "tags"))
    with pytest.raises(SnapshotNeededError, match="RPL-6566"):
        consumer.apply_ddl(alter(2, schema, Alter(AlterKind.CHANGE_KEY)))
    snapshot(consumer, schema, [given(1, ["a", None])])
    assert field(consumer, project).startswith("STRUCT<`list`")
    consumer.stop()


def test_an_added_json_column_gets_its_default(bigquery_emulators: Emulators) -> None:
    project = Project(bigquery_emulators, json_columns="json")
    consumer = project.consumer()
    apply(consumer, 1, [insert({"id": 1, "name": None, "note": None})])
    data = Column("data", JSON)
    wider = replace_columns(KEYED, (*KEYED.columns, data))
    consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, data, default='{"a": 1}')))
    assert arrays(project, "data") == [[1, {"a": 1}]]
    consumer.stop()
