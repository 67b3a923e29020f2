"""Arrow columns as load jobs and streams take them; whole columns, no Python per row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, bounds_of
from replicator_sdk.batch import combined
from replicator_target_bigquery.schema.fields import ELEMENT, LIST, Field, standard_type
from replicator_target_bigquery.schema.names import column_name


def columns_of(rows: pa.StructArray) -> dict[str, pa.Array]:
    """The fields by their names; NULL in a row that is NULL."""
    # StructArray.field() would return undefined values for the fields of a NULL row.
    return dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))


def loadable(column: pa.Array) -> pa.Array:
    """A column as Parquet for BigQuery: lists inside structs, names of fields as BigQuery takes them."""
    column = combined(column)
    if pa.types.is_list(column.type):
        return _wrapped_list(column)
    if not pa.types.is_struct(column.type):
        return column
    names = [column_name(column.type.field(i).name) for i in range(column.type.num_fields)]
    # flatten() returns NULLs for the fields of a NULL record; StructArray.field() would not.
    return pa.StructArray.from_arrays([loadable(c) for c in column.flatten()], names, mask=pc.is_null(column))


def _wrapped_list(column: pa.ListArray) -> pa.StructArray:
    nulls = pc.is_null(column)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = bounds_of(lengths).astype(np.int32)
    elements = pa.StructArray.from_arrays([loadable(column.flatten())], [ELEMENT])
    return pa.StructArray.from_arrays([pa.ListArray.from_arrays(pa.array(offsets), elements)], [LIST], mask=nulls)


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


def picked(first: Bools, one: pa.Array, other: pa.Array) -> pa.Array:
    """Of each place the value of `one` or of `other`."""
    if pa.types.is_nested(one.type):
        place = np.arange(len(first)) + np.where(first, 0, len(first))
        return pa.concat_arrays([one, other]).take(pa.array(place))
    return pc.if_else(pa.array(first), one, other)
