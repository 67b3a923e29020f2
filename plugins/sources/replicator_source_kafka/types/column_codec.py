"""The codec of a column: the Arrow type to read its values with, the standard type, and the conversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import DataType

Convert = Callable[[pa.Array, OutOfRangePolicy], pa.Array]


@dataclass(frozen=True, slots=True)
class Codec:
    """How one column's values are read and converted.

    Attributes:
        wire: The Arrow type they are read with; `JSON_TEXT` for values that Arrow cannot read from JSON.
        kind: Their standard type.
        convert: Converts wire values to `kind.arrow`; raises ValueError (or Arrow's subclass) for values not of the type.
    """

    wire: pa.DataType
    kind: DataType
    convert: Convert


def as_it_is(values: pa.Array, _limits: OutOfRangePolicy) -> pa.Array:
    """The conversion of columns whose wire type is the standard type."""
    return values


def cast_to(kind: DataType) -> Convert:
    """The conversion of columns by Arrow's (checked) cast."""
    return lambda values, _limits: values.cast(kind.arrow)


JSON_TEXT = pa.map_(pa.string(), pa.string())
"""The type of a nested value that is returned as JSON text. Arrow's reader refuses it, the slow reader supports it."""


def needs_slow_reader(wire: pa.DataType) -> bool:
    """Whether Arrow's JSON reader cannot read the type."""
    if pa.types.is_map(wire):
        return True
    if pa.types.is_list(wire):
        return needs_slow_reader(wire.value_type)
    return pa.types.is_struct(wire) and any(needs_slow_reader(f.type) for f in wire)


def text_of(values: pa.Array) -> pa.Array:
    """The text in a column read as `JSON_TEXT`: the only value of each map."""
    if not pa.types.is_map(values.type):
        return values.cast(pa.string())
    import pyarrow.compute as pc

    return pc.map_lookup(values, pa.scalar("", pa.string()), "first")
