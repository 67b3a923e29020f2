"""Changes of the twelve-column table as our sources emit them, made in memory, for measuring what a target does with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import BatchIdentity, ChangeBatch, TableChanges
from replicator_sdk.datatype import BOOL, INSTANT, INT32, INT64, JSON, STRING, TIMESTAMP, UUID, Decimal
from replicator_sdk.event import DMLOperation
from replicator_sdk.offset import NumberOffset, Position
from replicator_sdk.schema import Column, TableId, TableSchema

ORDERS: Final = TableSchema(
    TableId("bench", "orders"),
    (
        Column("id", INT64, nullable=False),
        Column("customer", INT32, nullable=False),
        Column("state", STRING, nullable=False),
        Column("quantity", INT32),
        Column("price", Decimal(12, 2)),
        Column("total", Decimal(18, 4)),
        Column("note", STRING),
        Column("created", INSTANT),
        Column("changed", TIMESTAMP),
        Column("attributes", JSON),
        Column("paid", BOOL),
        Column("reference", UUID),
    ),
    ("id",),
)
"""`orders` as the source describes it."""
_BATCH_ROWS: Final = 32_768
_START: Final = 1_704_067_200_000_000  # 2024-01-01
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What changes are like.

    Attributes:
        name: For the results.
        mixed: A third each of inserts, updates and deletes; else inserts only.
        unchanged: Whether updates come without `note` and `attributes`, as unchanged TOAST does.
        whole_before: Whether updates and deletes carry the whole row before, not only the key.
    """

    name: str
    mixed: bool = False
    unchanged: bool = False
    whole_before: bool = False


SHAPES: Final = (
    Shape("inserts"),
    Shape("mixed", mixed=True),
    Shape("without unchanged columns", mixed=True, unchanged=True),
    Shape("whole rows before", mixed=True, whole_before=True),
)


def changes(shape: Shape, rows: int) -> TableChanges:
    """`rows` changes of that shape; the same ones for the same arguments."""
    batches = [
        _batch(shape, np.arange(first, min(first + _BATCH_ROWS, rows), dtype=np.int64))
        for first in range(0, rows, _BATCH_ROWS)
    ]
    identity = BatchIdentity(1, 1, 1, rows, Position(NumberOffset(1)))
    nbytes = sum(b.nbytes for b in batches)
    return TableChanges(ORDERS, identity, batches, rows=rows, nbytes=nbytes, inserts_only=not shape.mixed)


def rows_changed_by(given: TableChanges) -> TableChanges:
    """INSERTs of the rows that `given`'s updates and deletes are about, one transaction before it."""
    keys = [b.before.field("id").filter(b.before.is_valid()) for b in given.batches() if b.before is not None]
    key = np.unique(pa.chunked_array(keys, pa.int64()).to_numpy())
    op, number = np.full(len(key), DMLOperation.INSERT, np.int8), np.arange(len(key), dtype=np.int64)
    batch = ChangeBatch(
        ORDERS, pa.array(op), _rows(key, null_where=None), None, number, sequence_numbers=number - len(key)
    )
    identity = BatchIdentity(1, 1, -len(key), -1, Position(NumberOffset(1)))
    return TableChanges(ORDERS, identity, [batch], rows=len(key), nbytes=batch.nbytes, inserts_only=True)


def _batch(shape: Shape, number: Int64s) -> ChangeBatch:
    """Changes number by number: every third inserts, the next updates and the one after deletes rows from long before."""
    size = len(number)
    op = (number % 3 + 1 if shape.mixed else np.full(size, DMLOperation.INSERT)).astype(np.int8)
    known = op != DMLOperation.INSERT
    key = np.where(known, number * 7919 % 1_000_003 + 10_000_000, number)
    row = _rows(key, null_where=op == DMLOperation.DELETE)
    before = None
    if shape.mixed:
        before = _rows(key, null_where=None if shape.whole_before else np.ones(size, np.bool_), absent=~known)
    unchanged = {}
    if shape.unchanged:
        lacks = pa.array(op == DMLOperation.UPDATE)
        unchanged = {"note": lacks, "attributes": lacks}
        row = _without(row, unchanged)
    return ChangeBatch(
        ORDERS, pa.array(op), row, before, number, unchanged, shape.whole_before, sequence_numbers=number + 1
    )


def _rows(
    key: Int64s, *, null_where: npt.NDArray[np.bool_] | None, absent: npt.NDArray[np.bool_] | None = None
) -> pa.StructArray:
    """Rows of the table, about 245 bytes each; at some places only the key, at others none."""
    null = None if null_where is None or not null_where.any() else null_where
    text, cents = pa.array(key).cast(pa.string()), key * 7919 % 1_000_000
    digits = pc.utf8_lpad(text, 32, "0")
    parts = [pc.utf8_slice_codeunits(digits, a, b) for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]
    small = pa.array(key % 1000).cast(pa.string())
    columns: dict[str, pa.Array] = {
        "id": pa.array(key),
        "customer": pa.array((key * 31 % 100_003).astype(np.int32)),
        "state": pa.array(["new", "paid", "packed", "shipped", "done", "cancelled"]).take(pa.array(key % 6)),
        "quantity": pa.array((1 + key % 97).astype(np.int32)),
        "price": _decimals(cents, 12, 2),
        "total": _decimals(cents * (1 + key % 97) * 100, 18, 4),
        "note": pc.if_else(
            pa.array(key % 7 > 0),
            pc.binary_join_element_wise("lorem ipsum dolor sit amet, naïve café 東京", small, " "),
            pa.scalar(None, pa.string()),
        ),
        "created": pa.array(_START + key * 37_000_000, pa.timestamp("us", "UTC")),
        "changed": pa.array(_START + key * 41_000_131, pa.timestamp("us")),
        "attributes": pc.binary_join_element_wise(
            '{"tags": ["a", "b', small, '"], "weight": ', small, ', "channel": 3}', ""
        ),
        "paid": pa.array(key % 2 == 0),
        "reference": pc.binary_join_element_wise(*parts, "-"),
    }
    if null is not None:
        keep = pa.array(~null)
        columns = {n: c if n == "id" else pc.if_else(keep, c, pa.scalar(None, c.type)) for n, c in columns.items()}
    arrays = [columns[c.name].cast(c.type.arrow) for c in ORDERS.columns]
    mask = None if absent is None else pa.array(absent)
    return pa.StructArray.from_arrays(arrays, fields=list(ORDERS.struct), mask=mask)


def _decimals(cents: Int64s, precision: int, scale: int) -> pa.Array:
    """Whole numbers as decimals with the point moved, by their two 64-bit halves."""
    halves = np.stack([cents, cents >> 63], axis=1)
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(cents), [None, pa.py_buffer(halves.tobytes())])


def _without(row: pa.StructArray, unchanged: dict[str, pa.BooleanArray]) -> pa.StructArray:
    arrays = [
        pc.if_else(unchanged[f.name], pa.scalar(None, f.type), row.field(f.name))
        if f.name in unchanged
        else row.field(f.name)
        for f in row.type
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(row.type))
