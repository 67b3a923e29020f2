"""Rows in standard Arrow types as a table's files hold them: physical names, Delta's types, metadata columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.schema import TableSchema
from replicator_target_delta.schema.types import Layout


def conform(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """`values` in the Arrow type `kind`, which holds the same values under Delta's names.

    Exact: a value that `kind` cannot hold raises `pyarrow.ArrowInvalid`.
    """
    if values.type.equals(kind):
        return values
    if pa.types.is_list(kind):
        start, stop = (values.offsets[0].as_py(), values.offsets[-1].as_py()) if len(values) else (0, 0)
        inner = conform(values.values.slice(start, stop - start), kind.value_type)
        # New offsets, with NULL where the list is NULL: the bitmap of a slice need not start at its first bit.
        offsets = pc.subtract(values.offsets, start) if len(values) else pa.array([0], pa.int32())
        valid = pa.concat_arrays([pc.is_valid(values), pa.array([True])])
        return pa.ListArray.from_arrays(pc.if_else(valid, offsets, None).cast(pa.int32()), inner, type=kind)
    if pa.types.is_struct(kind):
        inner_fields = [kind.field(i) for i in range(kind.num_fields)]
        inners = [conform(v, f.type) for v, f in zip(values.flatten(), inner_fields, strict=True)]
        mask = pc.is_null(values)
        if not inners:
            return pa.StructArray.from_arrays([], fields=[], mask=mask)
        return pa.StructArray.from_arrays(inners, fields=inner_fields, mask=mask)
    return values.cast(kind)


def encode_rows(rows: pa.Table | pa.RecordBatch, layout: Layout, extra: dict[str, pa.Array]) -> pa.Table:
    """Rows of the layout.

    Args:
        rows: Source columns by their own names; columns the layout does not have are left out only if absent there.
        layout: The table's columns.
        extra: Metadata columns by their names in the table.

    Returns:
        A table with the layout's physical schema; columns neither in `rows` nor in `extra` are NULL.
    """
    arrays = []
    names = set(rows.schema.names)
    for column in layout.columns:
        if column.name in extra:
            arrays.append(conform(extra[column.name], column.arrow.type))
        elif column.name in names:
            arrays.append(conform(combined(rows.column(column.name)), column.arrow.type))
        else:
            arrays.append(pa.nulls(rows.num_rows, column.arrow.type))
    return pa.Table.from_arrays(arrays, schema=layout.physical)


def encode_keys(keys: pa.Table, schema: TableSchema, layout: Layout) -> pa.Table:
    """Key columns as the table's files hold them, in key order."""
    columns = [layout[name] for name in schema.primary_key]
    arrays = [conform(combined(keys.column(c.name)), c.arrow.type) for c in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema([c.arrow for c in columns]))
