"""Changes and snapshot rows as the columns that are loaded; whole Arrow columns, no Python per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import ChangeBatch, TableChanges, combined
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.fields import ELEMENT, LIST, Field, standard_type
from replicator_target_bigquery.names import STAGED_BEFORE, column_name

BATCH_ID: Final = "_batch_id"
BATCH_TIME: Final = "_batch_time"
STAGED_SEQUENCE: Final = "_sequence_num"
OPERATION: Final = "_operation"
UNCHANGED: Final = "_unchanged"
_OPERATIONS: Final = pa.array(["INSERT", "UPDATE", "DELETE"])
STAGING_COLUMNS: Final = (
    Field(BATCH_TIME, "TIMESTAMP"),
    Field(BATCH_ID, "STRING"),
    Field(STAGED_SEQUENCE, "INT64"),
    Field(OPERATION, "STRING"),
    Field(UNCHANGED, "STRING"),
)
"""What every staging table has besides `_before_…` and the table's own columns."""
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchStamp:
    """What marks the rows of one batch.

    Attributes:
        batch_id: The batch's identity.
        moment: When it was staged, microseconds since 1970; says when the rows may go, and nothing else.
    """

    batch_id: str
    moment: int


def columns_of(rows: pa.StructArray) -> dict[str, pa.Array]:
    """The fields by their names; NULL in a row that is NULL."""
    # StructArray.field() would hand a NULL row's fields out as whatever lies there.
    return dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))


def loadable(column: pa.Array) -> pa.Array:
    """A column as Parquet for BigQuery: lists inside structs, names of fields as BigQuery takes them."""
    column = combined(column)
    if pa.types.is_list(column.type):
        return _wrapped_list(column)
    if not pa.types.is_struct(column.type):
        return column
    names = [column_name(column.type.field(i).name) for i in range(column.type.num_fields)]
    # flatten() hands a NULL record's fields out as NULLs; StructArray.field() would not.
    return pa.StructArray.from_arrays([loadable(c) for c in column.flatten()], names, mask=pc.is_null(column))


def _wrapped_list(column: pa.ListArray) -> pa.StructArray:
    nulls = pc.is_null(column)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    elements = pa.StructArray.from_arrays([loadable(column.flatten())], [ELEMENT])
    return pa.StructArray.from_arrays([pa.ListArray.from_arrays(pa.array(offsets), elements)], [LIST], mask=nulls)


def staged_batches(changes: TableChanges, names: dict[str, str], stamp: BatchStamp) -> Iterator[pa.Table]:
    """The batch as it is staged: every change as it came, in order.

    Where updates lack columns, the rows the batch comes to instead, each with what it still lacks marked: where a missing
    value comes from is a matter of the row's history, which SQL cannot follow.
    """
    schema = changes.schema
    if schema.primary_key and any(batch.unchanged for batch in changes.batches()):
        yield from _net_batches(changes, names, stamp)
        return
    for batch in changes.batches():
        yield _table(stamp, batch.sequence_numbers, _codes(batch), None, _before(batch), _rows(batch), names)


def _codes(batch: ChangeBatch) -> npt.NDArray[np.int8]:
    codes: npt.NDArray[np.int8] = batch.op.to_numpy(zero_copy_only=False)
    return codes


def _rows(batch: ChangeBatch) -> dict[str, pa.Array]:
    """The rows after the changes; of a DELETE the key alone."""
    deletes = _codes(batch) == DMLOperation.DELETE
    columns = columns_of(batch.row)
    if not deletes.any():
        return columns
    before = columns_of(batch.before) if batch.before is not None else {}
    return {
        name: _picked(deletes, before[name], c) if name in batch.schema.primary_key else nulled(c, deletes)
        for name, c in columns.items()
    }


def nulled(column: pa.Array, where: Bools) -> pa.Array:
    """The column with NULL at some places as well; its values are shared, not copied, unless they are nested."""
    if pa.types.is_nested(column.type):
        return column.take(pa.array(np.arange(len(column)), mask=where))
    valid = ~where
    if column.null_count:
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    # One offset holds for all buffers of an array, so the bits before it are there too.
    bits = np.packbits(np.concatenate([np.zeros(column.offset, np.bool_), valid]), bitorder="little")
    buffers = [pa.py_buffer(bits), *column.buffers()[1:]]
    return pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset)


def _picked(first: Bools, one: pa.Array, other: pa.Array) -> pa.Array:
    """Of each place the value of `one` or of `other`."""
    if pa.types.is_nested(one.type):
        place = np.arange(len(first)) + np.where(first, 0, len(first))
        return pa.concat_arrays([one, other]).take(pa.array(place))
    return pc.if_else(pa.array(first), one, other)


def _before(batch: ChangeBatch) -> dict[str, pa.Array]:
    """The rows before the changes, as far as they are told; the key always, except before an INSERT."""
    size, op = len(batch), _codes(batch)
    inserts = op == DMLOperation.INSERT
    key = set(batch.schema.primary_key)
    if inserts.all() or batch.before is None:
        valid = told = np.zeros(size, np.bool_)
        before: dict[str, pa.Array] = {}
    else:
        valid = pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
        told = valid & ~inserts
        before = columns_of(batch.before)
    after = columns_of(batch.row)
    made: dict[str, pa.Array] = {}
    for column in batch.schema.columns:
        kind, name = column.type.arrow, column.name
        if inserts.all() or (name not in key and not (before and batch.before_is_full)):
            made[name] = pa.nulls(size, kind)
        elif name in key:
            made[name] = _key_before(before.get(name, after[name]), told, after[name], inserts)
        else:
            made[name] = before[name] if np.array_equal(valid, told) else nulled(before[name], ~told)
    return made


def _key_before(before: pa.Array, told: Bools, after: pa.Array, inserts: Bools) -> pa.Array:
    """The key before: as told, else the row's own, and none before an INSERT."""
    key = before if told.all() else _picked(told, before, after)
    return nulled(key, inserts) if inserts.any() else key


def _net_batches(changes: TableChanges, names: dict[str, str], stamp: BatchStamp) -> Iterator[pa.Table]:
    """The net change per key; updates tell by `_before_…` under which key the target holds the row."""
    schema = changes.schema
    plan = NetPlan(changes.batches, schema, overlap=changes.overlap)
    for part in plan.parts():
        codes = np.where(part.fresh, DMLOperation.INSERT, DMLOperation.UPDATE).astype(np.int8)
        rows = {name: combined(part.rows.column(name)) for name in schema.names}
        yield _table(stamp, part.sequence, codes, _flags(part, schema), _origins(part, schema), rows, names)
    if len(plan.deletes):
        size = len(plan.deletes)
        keys = {name: combined(plan.deletes.column(name)) for name in schema.primary_key}
        empty = {c.name: pa.nulls(size, c.type.arrow) for c in schema.columns}
        codes = np.full(size, DMLOperation.DELETE, np.int8)
        yield _table(stamp, plan.delete_sequence, codes, pa.repeat("", size), empty | keys, empty | keys, names)


def _flags(part: Upserts, schema: TableSchema) -> pa.Array:
    """For each row one digit a column, 1 where only the target has its value."""
    digits = np.full((len(part), len(schema.names)), ord("0"), np.uint8)
    for place, name in enumerate(schema.names):
        if name in part.unresolved:
            digits[part.unresolved[name], place] = ord("1")
    offsets = np.arange(len(part) + 1, dtype=np.int32) * len(schema.names)
    return pa.StringArray.from_buffers(len(part), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits)))


def _origins(part: Upserts, schema: TableSchema) -> dict[str, pa.Array]:
    size = len(part)
    made = {c.name: pa.nulls(size, c.type.arrow) for c in schema.columns}
    place = np.arange(size)
    place[part.origin_rows] = size + np.arange(len(part.origin_rows))
    for name in schema.primary_key:
        own, origin = combined(part.rows.column(name)), combined(part.origin.column(name))
        made[name] = pa.concat_arrays([own, origin]).take(pa.array(place)) if len(origin) else own
    return made


def _table(
    stamp: BatchStamp,
    sequence: Int64s | None,
    codes: npt.NDArray[np.int8],
    unchanged: pa.Array | None,
    before: dict[str, pa.Array],
    rows: dict[str, pa.Array],
    names: dict[str, str],
) -> pa.Table:
    assert sequence is not None
    size = len(codes)
    columns = {
        BATCH_TIME: pa.repeat(pa.scalar(stamp.moment, pa.timestamp("us", "UTC")), size),
        BATCH_ID: pa.DictionaryArray.from_arrays(np.zeros(size, np.int8), pa.array([stamp.batch_id])),
        STAGED_SEQUENCE: pa.array(sequence, pa.int64()),
        OPERATION: pa.DictionaryArray.from_arrays(codes - 1, _OPERATIONS),
        UNCHANGED: pa.nulls(size, pa.string()) if unchanged is None else unchanged,
    }
    columns |= {STAGED_BEFORE + names[source]: loadable(column) for source, column in before.items()}
    columns |= {names[source]: loadable(column) for source, column in rows.items()}
    return pa.table(columns)


def in_order(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """The rows with the columns in the table's order; NULL where only the table has one."""
    have = {name.lower(): name for name in rows.column_names}
    columns = [
        rows.column(have[f.name.lower()]) if f.name.lower() in have else _absent(f, rows.num_rows) for f in fields
    ]
    return pa.table(columns, names=[f.name for f in fields])


def _absent(column: Field, size: int) -> pa.Array:
    """NULLs for a column that only the table has."""
    kind = standard_type(column)
    return loadable(pa.nulls(size, pa.string() if kind is None else kind.arrow))
