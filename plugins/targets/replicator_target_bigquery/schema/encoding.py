"""Arrow columns as load jobs and streams take them; whole columns, no Python per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, bounds_of
from replicator_sdk.batch import combined
from replicator_sdk.errors import DataError
from replicator_target_bigquery.schema.fields import ELEMENT, LIST, Field, standard_type
from replicator_target_bigquery.schema.names import column_name


def columns_of(rows: pa.StructArray) -> dict[str, pa.Array]:
    """The fields by their names; NULL in a row that is NULL."""
    # StructArray.field() would return undefined values for the fields of a NULL row.
    return dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """Encodes the columns of one table. Picklable, safe from any thread.

    Attributes:
        table: The table at the source, for messages.
        fields: Its columns at BigQuery, by name.
        leaves_nulls_out: Whether elements that are NULL are left out of native arrays.
    """

    table: str
    fields: Mapping[str, Field]
    leaves_nulls_out: bool = False

    def column(self, name: str, values: pa.Array) -> pa.Array:
        """The values of the column `name` at BigQuery.

        Raises:
            DataError: When a native array has a NULL element, unless they are left out.
        """
        try:
            return loadable(values, self.fields.get(name), leaves_nulls_out=self.leaves_nulls_out)
        except NullElementError as err:
            raise DataError(
                f"an array in column {name} has an element that is NULL, which BigQuery's ARRAY cannot hold",
                code="RPL-6541",
                table=self.table,
                hint="set `outOfRange` to null to leave such elements out; or set `arrays` to wrapped and drop the table at "
                "BigQuery: it is copied again",
            ) from err


class NullElementError(Exception):
    """A native array has an element that is NULL."""


def loadable(column: pa.Array, kind: Field | None = None, *, leaves_nulls_out: bool = False) -> pa.Array:
    """A column as load jobs and streams take it.

    Args:
        column: The values.
        kind: The column at BigQuery; when left out, lists are wrapped.
        leaves_nulls_out: Whether elements that are NULL are left out of native arrays.

    Raises:
        NullElementError: When a native array has one and they are not left out.
    """
    column = combined(column)
    if pa.types.is_list(column.type):
        if kind is not None and kind.mode == "REPEATED":
            return _plain_list(column, kind, leaves_nulls_out=leaves_nulls_out)
        return _wrapped_list(column)
    if not pa.types.is_struct(column.type):
        return column
    names = [column_name(column.type.field(i).name) for i in range(column.type.num_fields)]
    inside = {f.name.lower(): f for f in kind.fields} if kind is not None else {}
    # flatten() returns NULLs for the fields of a NULL record; StructArray.field() would not.
    parts = [
        loadable(part, inside.get(name.lower()), leaves_nulls_out=leaves_nulls_out)
        for name, part in zip(names, column.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(parts, names, mask=pc.is_null(column))


def _plain_list(column: pa.ListArray, kind: Field, *, leaves_nulls_out: bool) -> pa.ListArray:
    """Lists as ARRAY takes them: none is NULL, and no element is."""
    elements = column.flatten()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    if elements.null_count:
        if not leaves_nulls_out:
            raise NullElementError
        owners = np.repeat(np.arange(len(column)), lengths)
        kept = elements.is_valid().to_numpy(zero_copy_only=False)
        lengths, elements = np.bincount(owners[kept], minlength=len(column)), elements.drop_null()
    made = loadable(elements, replace(kind, mode="NULLABLE"), leaves_nulls_out=leaves_nulls_out)
    return pa.ListArray.from_arrays(pa.array(bounds_of(lengths).astype(np.int32)), made)


def _wrapped_list(column: pa.ListArray) -> pa.StructArray:
    nulls = pc.is_null(column)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = bounds_of(lengths).astype(np.int32)
    elements = pa.StructArray.from_arrays([loadable(column.flatten())], [ELEMENT])
    return pa.StructArray.from_arrays([pa.ListArray.from_arrays(pa.array(offsets), elements)], [LIST], mask=nulls)


def in_order(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """The rows as Parquet files have them, with the columns in the table's order; NULL where only the table has one."""
    have = {name.lower(): name for name in rows.column_names}
    columns = [
        rows.column(have[f.name.lower()]) if f.name.lower() in have else _absent(f, rows.num_rows) for f in fields
    ]
    marked = [
        _as_json(c) if f.type == "JSON" and f.mode != "REPEATED" else c for f, c in zip(fields, columns, strict=True)
    ]
    return pa.table(marked, names=[f.name for f in fields])


def _as_json(column: pa.Array) -> pa.Array:
    """Text that Parquet marks as JSON, so that load jobs take it for BigQuery's."""
    return pa.ExtensionArray.from_storage(pa.json_(pa.string()), combined(column))


def _absent(column: Field, size: int) -> pa.Array:
    """NULLs for a column that only the table has."""
    kind = standard_type(column)
    return loadable(pa.nulls(size, pa.string() if kind is None else kind.arrow), column)


def picked(first: Bools, one: pa.Array, other: pa.Array) -> pa.Array:
    """Of each place the value of `one` or of `other`."""
    if pa.types.is_nested(one.type):
        place = np.arange(len(first)) + np.where(first, 0, len(first))
        return pa.concat_arrays([one, other]).take(pa.array(place))
    return pc.if_else(pa.array(first), one, other)
