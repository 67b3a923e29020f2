"""How one column travels: the Arrow type its JSON is read with, the standard type, and the way from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.datatype import DataType
from replicator_source_kafka.types.limits import Limits

Convert = Callable[[pa.Array, Limits], pa.Array]


@dataclass(frozen=True, slots=True)
class Codec:
    """The way of one column's values.

    Attributes:
        wire: The Arrow type they are read with; `JSON_TEXT` for what Arrow cannot read from JSON as it is.
        kind: Their standard type.
        convert: Wire values to `kind.arrow`; raises ValueError (also Arrow's) for values that are not of the type.
    """

    wire: pa.DataType
    kind: DataType
    convert: Convert


def as_it_is(values: pa.Array, _limits: Limits) -> pa.Array:
    """For columns whose wire type is the standard one."""
    return values


def cast_to(kind: DataType) -> Convert:
    """For columns that Arrow's own (checked) cast brings to `kind`."""
    return lambda values, _limits: values.cast(kind.arrow)


JSON_TEXT = pa.map_(pa.string(), pa.string())
"""Stands for a nested value that arrives as its own JSON text; Arrow's reader refuses it, the slow one knows it."""


def needs_slow_reader(wire: pa.DataType) -> bool:
    """Whether Arrow's JSON reader cannot read the type."""
    if pa.types.is_map(wire):
        return True
    if pa.types.is_list(wire):
        return needs_slow_reader(wire.value_type)
    return pa.types.is_struct(wire) and any(needs_slow_reader(f.type) for f in wire)


def text_of(values: pa.Array) -> pa.Array:
    """The text out of a column read as `JSON_TEXT`: the only value of each map."""
    if not pa.types.is_map(values.type):
        return values.cast(pa.string())
    import pyarrow.compute as pc

    return pc.map_lookup(values, pa.scalar("", pa.string()), "first")
