"""Arrow arrays as a table's files hold them: columns and nested fields are matched, types widened, values kept exactly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_target_iceberg.schema.types import Layout, field_id


def fit(values: pa.Array, kind: pa.DataType, *, by_id: bool = False) -> pa.Array:
    """`values` in the type `kind`. Exact: a value that `kind` cannot hold raises `pyarrow.ArrowInvalid`.

    Args:
        values: An array.
        kind: The type.
        by_id: Whether fields of records are matched by their identities, as for values of an older file, and NULL where they are
            not there; else by their order.
    """
    if values.type.equals(kind, check_metadata=by_id):
        return values
    if pa.types.is_list(kind):
        return _fit_list(values, kind, by_id=by_id)
    if pa.types.is_struct(kind):
        return _fit_struct(values, kind, by_id=by_id)
    return values.cast(kind)


def _fit_list(values: pa.ListArray, kind: pa.ListType, *, by_id: bool) -> pa.ListArray:
    ends = values.offsets.to_numpy()
    inner = fit(values.values[int(ends[0]) : int(ends[-1])], kind.value_type, by_id=by_id)
    # An offset that is NULL makes a list that is NULL; the bitmap of a slice need not begin at its first bit.
    missing = np.append(pc.is_null(values).to_numpy(zero_copy_only=False), [False])
    offsets = pa.array(ends - ends[0], pa.int32(), mask=missing)
    return pa.ListArray.from_arrays(offsets, inner, type=kind)


def _fit_struct(values: pa.StructArray, kind: pa.StructType, *, by_id: bool) -> pa.StructArray:
    children = values.flatten()  # with the NULLs of the records themselves
    fields = [kind.field(place) for place in range(kind.num_fields)]
    if by_id:
        places = {field_id(values.type.field(place)): place for place in range(values.type.num_fields)}
        if None in places:  # a file without identities: by name
            places = {field_id(f): values.type.get_field_index(f.name) for f in fields}
        found = [places.get(field_id(f), -1) for f in fields]
    else:
        found = list(range(len(fields)))
    inner = [
        pa.nulls(len(values), f.type) if place < 0 else fit(children[place], f.type, by_id=by_id)
        for f, place in zip(fields, found, strict=True)
    ]
    return pa.StructArray.from_arrays(inner, fields=fields, mask=pc.is_null(values))


def encode_rows(
    rows: pa.Table | pa.RecordBatch, layout: Layout, extra: Mapping[str, pa.Array] | None = None
) -> pa.Table:
    """Rows of the layout: the source's columns by name, those of `extra` as they are given, and NULL for all others."""
    extra, names = extra or {}, set(rows.schema.names)
    arrays = []
    for column in layout.arrow:
        if column.name in extra:
            arrays.append(fit(extra[column.name], column.type))
        elif column.name in names:
            arrays.append(fit(combined(rows.column(column.name)), column.type))
        else:
            arrays.append(pa.nulls(rows.num_rows, column.type))
    return pa.Table.from_arrays(arrays, schema=layout.arrow)


def encode_columns(rows: pa.Table, names: tuple[str, ...], layout: Layout) -> pa.Table:
    """Only some columns of the layout, in the order of `names`."""
    fields = [layout.field(name) for name in names]
    arrays = [fit(combined(rows.column(f.name)), f.type) for f in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema([f.with_nullable(True) for f in fields]))
