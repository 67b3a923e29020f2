"""Values that were cast to the form of a target, as the source has them: the inverse of an exact cast."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.datatype import Array, DataType, Record

_ANY_DAY = "1970-01-01 "


def original(values: pa.Array, kind: DataType) -> pa.Array:
    """`values` in the Arrow type of `kind`.

    Raises:
        ValueError: When they do not come back as they were (`pyarrow.ArrowInvalid` is one, too).
    """
    if values.type == kind.arrow:
        return values
    if isinstance(kind, Array):
        inner = original(values.flatten(), kind.element)
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        return pa.ListArray.from_arrays(offsets, inner, type=kind.arrow, mask=pc.is_null(values))
    if isinstance(kind, Record):
        parts = [original(part, inner) for part, (_, inner) in zip(values.flatten(), kind.fields, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind.arrow), mask=pc.is_null(values))
    found = _leaf(values, kind.arrow)
    if not found.cast(values.type).equals(values):
        raise ValueError("values do not come back as they were")
    return found


def _leaf(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow reads no time of day from text, but dates with one."""
    if pa.types.is_time(kind) and pa.types.is_string(values.type):
        return pc.binary_join_element_wise(_ANY_DAY, values, "").cast(pa.timestamp("us")).cast(kind)
    return values.cast(kind)
