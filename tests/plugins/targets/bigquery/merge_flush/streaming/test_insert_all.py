"""insertAll in place of the Storage Write API: every type arrives, and a row that comes twice or late does no harm."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INSTANT,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Record,
)
from replicator_sdk.errors import DataError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_bigquery.merge_flush.streaming.insert_all import json_rows
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, merging, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Request

VALUES: dict[str, tuple[Any, Any]] = {
    "id": (INT64, 2**62 + 1),
    "b": (BOOL, True),
    "f": (FLOAT64, 0.1),
    "n": (Decimal(12, 2), Number("-1234567890.12")),
    "s": (STRING, "né'\n\\"),
    "x": (BINARY, b"\x00\xff"),
    "d": (DATE, date(1, 1, 1)),
    "t": (TIME, time(23, 59, 59, 999_999)),
    "ts": (TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 1)),
    "moment": (INSTANT, datetime(2038, 1, 19, 3, 14, 8, 123_456, UTC)),
    "a": (Array(INT64), [1, None]),
    "r": (Record((("x", INT64), ("y", STRING))), {"x": 1, "y": None}),
}
TYPES = TableSchema(TableId("d", "types"), tuple(Column(name, kind) for name, (kind, _) in VALUES.items()), ("id",))


@pytest.fixture
def inserting(bigquery_emulators: Emulators) -> Project:
    bigquery_emulators.gate.clear()
    return streaming(bigquery_emulators, use_storage_write_api=False)


def test_every_type_arrives(inserting: Project) -> None:
    consumer = merging(inserting)
    whole = {name: value for name, (_, value) in VALUES.items()}
    nothing = {**dict.fromkeys(VALUES), "id": 1}
    consumer.apply_batch(batch(1, [insert(whole, TYPES), insert(nothing, TYPES), insert({**nothing, "id": 2}, TYPES)]))
    consumer.apply_batch(batch(2, [delete({"id": 2}, TYPES)]))
    consumer.settle([TYPES.table])
    assert consumer.settled(TYPES.table) == at(2)
    assert sorted(inserting.read_table(TYPES), key=lambda found: found["id"]) == [nothing, whole]
    consumer.stop()


def test_numbers_that_are_none_have_googles_names() -> None:
    column = pa.array([float("nan"), float("inf"), float("-inf"), None, 1.5])
    rows = json_rows(pa.RecordBatch.from_arrays([column], names=["f"]))
    assert [found["f"] for found in rows] == ["NaN", "Infinity", "-Infinity", None, "1.5"]


def inserts(request: Request) -> bool:
    return request.path.split("?")[0].endswith("/insertAll")


@pytest.mark.parametrize("form", [{}, {"upsert_enabled": False}, {"delete_enabled": False}], ids=str)
def test_rows_that_come_twice_are_merged_once(bigquery_emulators: Emulators, form: dict[str, bool]) -> None:
    bigquery_emulators.gate.clear()
    project = streaming(bigquery_emulators, use_storage_write_api=False, **form)
    consumer, gate = merging(project), project.emulators.gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan(Fault(lose_answer=True), Fault(status=503), on=inserts)
    consumer.apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b"))]))
    assert gate.pending == 0
    (table,) = intermediates(project)
    assert project.count(table) == 4, "the emulator drops none of them"
    consumer.settle([KEYED.table])
    found = project.select("SELECT name FROM {d}.customers ORDER BY name")
    assert found == ([["b"]] if form.get("upsert_enabled", True) else [["a"], ["b"]])
    consumer.stop()


def test_rows_that_do_not_fit_are_refused_without_their_values(inserting: Project) -> None:
    consumer = merging(inserting)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer._clients.bigquery.insert_rows_json = lambda *_, **__: [{"errors": [{"message": "secret"}]}]
    with pytest.raises(DataError, match="RPL-6605") as err:
        consumer.apply_batch(batch(1, [insert(row(1, "secret"))]))
    assert "secret" not in str(err.value)
    consumer.stop()
