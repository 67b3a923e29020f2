"""The rows of the wanted keys are the source's own values, and keys that only the target has are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal as Number
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from replicator_runtime.engine.repair.rows import Rows, read_rows
from replicator_runtime.engine.verification.checksums import hashed
from replicator_runtime.engine.verification.verdict import KEY
from replicator_sdk import (
    BatchIdentity,
    Column,
    DMLOperation,
    Position,
    SnapshotChunk,
    TableId,
    TableProgress,
    TableSchema,
    TableSnapshot,
    TableVersion,
)  # fmt: skip
from replicator_sdk.datatype import BINARY, FLOAT64, INSTANT, INT32, TIME, TIMESTAMP, Array, Decimal, Record
from replicator_sdk.testing.in_memory.offset import MemoryOffset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = TableSchema(
    TableId("shop", "orders"),
    (
        Column("day time", TIME), Column("n", INT32), Column("price", Decimal(12, 3)), Column("at", INSTANT),
        Column("local", TIMESTAMP), Column("some", Array(TIME)), Column("both", Record((("a", TIME), ("b", FLOAT64)))),
        Column("raw", BINARY),
    ),
    ("n", "day time"),
)  # fmt: skip
FORM = pa.schema(
    [("day time", pa.string()), ("n", pa.int32()), ("price", pa.decimal128(12, 3)), ("at", pa.timestamp("us", "UTC")),
     ("local", pa.timestamp("us")), ("some", pa.list_(pa.string())),
     ("both", pa.struct([("a", pa.string()), ("b", pa.float64())])), ("raw", pa.binary())]
)  # fmt: skip


def row(number: int, *, empty: bool = False) -> dict[str, Any]:
    moment = time(23, 59, number, 999_999)
    values: dict[str, Any] = {
        "price": Number(f"{number}.125"), "at": datetime(2026, 3, 29, 1, 30, number, 7, UTC),
        "local": datetime(1900, 1, 1, 0, 0, number), "some": [moment, None], "both": {"a": moment, "b": float("nan")},
        "raw": bytes([0, number]),
    }  # fmt: skip
    return {"day time": moment, "n": number, **({} if empty else values)}


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA.arrow)


def read(content: bytes, chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
    yield from pa.ipc.open_stream(content).read_all().slice(chunk.bounds["from"], 2).to_batches()


@dataclass
class Snapshot(TableSnapshot):
    """Of rows in memory, two a chunk."""

    rows: pa.Table

    def __post_init__(self) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as stream:
            stream.write_table(self.rows)
        self.schema, self.position, self.resumable = SCHEMA, MemoryOffset(7), True
        self.chunks = tuple(SnapshotChunk(n, {"from": n * 2}) for n in range(-(-self.rows.num_rows // 2)))
        self.read = partial(read, sink.getvalue().to_pybytes())

    def close(self) -> None:
        """Nothing is open."""


def found(spark: SparkSession, numbers: range, *left_out: str) -> Rows:
    """Of a source with rows 1 to 5 and a target with 2 to 7."""
    held = pa.Table.from_arrays(
        [column.cast(FORM.field(place).type) for place, column in enumerate(table(*map(row, range(2, 8))).columns)],
        schema=FORM,
    )
    rows = spark.createDataFrame(held)
    wanted = pa.Table.from_arrays(
        [column.cast(FORM.field(place).type) for place, column in enumerate(table(*map(row, numbers)).columns)],
        schema=FORM,
    )
    hashes = hashed(spark.createDataFrame(wanted), SCHEMA).toArrow()
    keys = np.zeros(len(numbers), KEY)
    keys["k1"], keys["k2"] = hashes.column("k1").to_numpy(), hashes.column("k2").to_numpy()
    version = TableVersion("3", TableProgress(1, 1, Position(MemoryOffset(5))), FORM, rows)
    source = Snapshot(table(*(row(n, empty=n == 3) for n in range(1, 6))))
    return read_rows(spark, source, version, keys, frozenset(left_out))


def test_values_are_those_of_the_source_and_only_of_the_wanted_keys(spark: SparkSession) -> None:
    rows = found(spark, range(1, 7))
    written = rows.written.sort_by("n")
    assert written.schema == SCHEMA.arrow
    assert str(written.to_pylist()) == str(table(*(row(n, empty=n == 3) for n in range(1, 6))).to_pylist())
    assert rows.deleted.to_pylist() == [{"n": 6, "day time": time(23, 59, 6, 999_999)}]
    assert found(spark, range(4, 6)).written.column("n").to_pylist() in ([4, 5], [5, 4])
    none = found(spark, range(20, 22))
    assert (none.written.num_rows, none.deleted.num_rows) == (0, 0)
    changes = rows.changes(BatchIdentity(1, 2, 9, 9, Position(MemoryOffset(5))))
    deletes, writes = changes.batches()
    assert set(deletes.op.to_pylist()) == {DMLOperation.DELETE}
    assert deletes.before is not None
    assert deletes.before.to_pylist() == [{**dict.fromkeys(SCHEMA.names), **rows.deleted.to_pylist()[0]}]
    assert (set(writes.op.to_pylist()), len(writes), changes.rows) == ({DMLOperation.INSERT}, 5, 6)


@pytest.mark.parametrize(
    ("left_out", "written", "deleted"),
    [("DELETE", [1, 2], 0), ("TRUNCATE_TABLE", [1, 2], 0), ("INSERT", [2], 1)],
)
def test_what_follows_from_operations_that_are_left_out_stays(
    spark: SparkSession, left_out: str, written: list[int], deleted: int
) -> None:
    rows = found(spark, range(1, 3), left_out)
    assert sorted(rows.written.column("n").to_pylist()) == written
    gone = found(spark, range(6, 7), left_out)
    assert gone.deleted.num_rows == deleted
