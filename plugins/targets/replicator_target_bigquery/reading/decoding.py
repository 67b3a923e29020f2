"""Arrow columns as the Storage Read API has them, in the form in which they are compared; the inverse of `schema.encoding`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import bounds_of
from replicator_sdk.batch import combined
from replicator_sdk.datatype import FLOAT32, INT8, INT16, INT32, TIME, Array, DataType, Decimal, Record
from replicator_target_bigquery.schema.encoding import columns_of
from replicator_target_bigquery.schema.fields import ELEMENT, LIST, Field, is_wrapped, standard_type
from replicator_target_bigquery.schema.names import column_name

_WIDER: Final[dict[DataType, pa.DataType]] = {
    **dict.fromkeys((INT8, INT16, INT32), pa.int64()),
    FLOAT32: pa.float64(),
    TIME: pa.string(),  # Spark has no type for a time of day
}


def inexact(kind: Field) -> bool:
    """Whether a column, or a field inside it, does not hold every value as the source has it: ARRAY and JSON."""
    inside = kind.fields[0].fields if is_wrapped(kind) else kind.fields
    return kind.mode == "REPEATED" or kind.type == "JSON" or any(map(inexact, inside))


def form_of(kind: DataType, found: Field) -> pa.DataType | None:
    """The Arrow type in which a column of the source and its copy are compared; None where the copy has no such type.

    Args:
        kind: The column's type at the source.
        found: The column at the target.
    """
    if isinstance(kind, Array):
        inner = form_of(kind.element, found.fields[0].fields[0])
        return None if inner is None else pa.list_(pa.field(ELEMENT, inner))
    if isinstance(kind, Record):
        there = {f.name.lower(): f for f in found.fields}
        forms = [(name, form_of(inner, there[column_name(name).lower()])) for name, inner in kind.fields]
        return None if any(form is None for _, form in forms) else pa.struct([pa.field(n, f) for n, f in forms])
    if isinstance(kind, Decimal):
        held = standard_type(found)
        return held.arrow if isinstance(held, Decimal) else None
    return _WIDER.get(kind, kind.arrow)


def decoded(values: pa.Array, kind: DataType, form: pa.DataType) -> pa.Array:
    """A column of the target in the form in which it is compared.

    Args:
        values: As the Storage Read API has them.
        kind: The column's type at the source.
        form: From `form_of`.

    Raises:
        pyarrow.ArrowInvalid: When a value does not fit; its text may hold the value.
    """
    values = combined(values)
    if isinstance(kind, Array):
        return _list(values, kind, form)
    if isinstance(kind, Record):
        there = {name.lower(): part for name, part in columns_of(values).items()}
        parts = [
            decoded(there[column_name(name).lower()], inner, form.field(place).type)
            for place, (name, inner) in enumerate(kind.fields)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(form), mask=pc.is_null(values))
    if kind == TIME:
        return values.cast(TIME.arrow).cast(form)
    return values.cast(form)


def _list(values: pa.StructArray, kind: Array, form: pa.DataType) -> pa.ListArray:
    """Lists that a STRUCT wraps; NULL where it is."""
    lists = columns_of(values)[LIST]
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    elements = columns_of(lists.flatten())[ELEMENT]
    inner = decoded(elements, kind.element, form.value_type)
    offsets = pa.array(bounds_of(lengths).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, inner, type=form, mask=pc.is_null(values))
