"""Each type's values are in the archive's Parquet as they were, for pyarrow and for DuckDB."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replicator_runtime.engine.archive.names import folder_of
from replicator_sdk import ChangeBatch, Column, TableId, TableSchema
from replicator_sdk.change_archive.rows import parquet, parquet_files, rows_of_changes, rows_of_copy
from replicator_sdk.datatype import parse_type

if TYPE_CHECKING:
    from pathlib import Path

VALUES = {
    "bool": True,
    "int8": -128,
    "int16": 32_767,
    "int32": -(2**31),
    "int64": 2**63 - 1,
    "float32": 0.5,
    "float64": -1e300,
    "string": "Grüße, 'x' \u0000",
    "binary": b"\x00\xff",
    "date": dt.date(1, 1, 1),
    "time": dt.time(23, 59, 59, 999_999),
    "timestamp": dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    "instant": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "json": '{"a": [1, null]}',
    "uuid": "00000000-0000-0000-0000-000000000001",
    "decimal(38,10)": Decimal("-9999999999999999999999999999.9999999999"),
    "array<array<string>>": [["a", None], None, []],
    'record<"a b":int32,"c":array<date>>': {"a b": None, "c": [dt.date(9999, 12, 31)]},
}
COLUMNS = tuple(Column(kind, parse_type(kind)) for kind in VALUES)
SCHEMA = TableSchema(
    TableId("shop", "every type", "public"), (Column("id", parse_type("int64"), False), *COLUMNS), ("id",)
)
FULL, EMPTY = {"id": 1, **VALUES}, {"id": 2, **dict.fromkeys(VALUES)}


def test_values_of_every_type_and_nulls_are_kept(tmp_path: Path) -> None:
    rows = pa.array([FULL, EMPTY, FULL, EMPTY], SCHEMA.struct)
    key = dict.fromkeys(SCHEMA.names) | {"id": 7}
    batch = ChangeBatch(
        SCHEMA,
        pa.array([1, 2, 2, 3], pa.int8()),
        rows,
        pa.array([None, key, None, {**key, "id": 2}], SCHEMA.struct),
        np.arange(4),
        {"json": pa.array([False, True, False, False])},
        sequence_numbers=np.arange(11, 15),
        timestamps=np.array([0, 1, -1, 2]),
    )
    path = tmp_path / "changes.parquet"
    path.write_bytes(parquet(SCHEMA, [rows_of_changes(part, "5") for part in (batch.slice(0, 1), batch.slice(1, 4))]))
    table = pq.read_table(path)
    assert TableSchema.from_json(json.loads(table.schema.metadata[b"replicator.schema"])) == SCHEMA
    found = table.to_pylist()
    assert [row["operation"] for row in found] == ["c", "u", "u", "d"]
    assert [row["after"] for row in found] == [FULL, EMPTY, FULL, None]
    assert [row["before"] for row in found] == [None, key, None, {**key, "id": 2}]
    assert [(row["unchanged"] or {}).get("json", False) for row in found] == [False, True, False, False]
    assert [row["sequence"] for row in found] == [11, 12, 13, 14]
    assert [row["committed_at"] is None for row in found] == [False, False, True, False]
    assert {row["position"] for row in found} == {"5"}
    by_duckdb = duckdb.sql(
        f"SELECT operation, after.id, after.int64, sequence FROM '{path}' ORDER BY sequence"
    ).fetchall()
    assert by_duckdb == [("c", 1, 2**63 - 1, 11), ("u", 2, None, 12), ("u", 1, 2**63 - 1, 13), ("d", None, None, 14)]


def test_rows_of_a_copy_are_kept(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([FULL, EMPTY], schema=SCHEMA.arrow)
    path = tmp_path / "copy.parquet"
    path.write_bytes(parquet(SCHEMA, [rows_of_copy(SCHEMA, batch, "5")]))
    found = pq.read_table(path).to_pylist()
    assert [(row["operation"], row["before"], row["after"]) for row in found] == [("r", None, FULL), ("r", None, EMPTY)]


def test_a_transaction_that_is_larger_than_memory_has_several_files(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([FULL] * 100, schema=SCHEMA.arrow)
    parts = [rows_of_copy(SCHEMA, batch, "5")] * 10
    files = list(parquet_files(SCHEMA, parts, 4 * parts[0].nbytes))
    assert [pq.read_metadata(pa.BufferReader(file)).num_rows for file in files] == [400, 400, 200]


def test_folders_of_tables_differ_whatever_their_names_are() -> None:
    names = [
        TableId("a", "b.c"),
        TableId("a", "c", "b"),
        TableId("a.b", "c"),
        TableId("a", "../c"),
        TableId("a", "~"),
        TableId("a", "é" * 200),
        TableId("a", "é" * 199 + "x"),
    ]
    folders = {folder_of(table) for table in names}
    assert len(folders) == len(names)
    assert all("/" not in folder and ".." not in folder and len(folder) < 240 for folder in folders)
