"""Converts between NumPy arrays and Arrow's buffers, without Python code per value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s

Bools = npt.NDArray[np.bool_]
"""Flags, one for each row."""
Bytes = npt.NDArray[np.uint8]
"""Bytes."""

__all__ = [
    "Bools",
    "Bytes",
    "Int64s",
    "bitmap",
    "fixed_width",
    "joined_bytes",
    "spread",
    "validity",
    "variable_width",
    "with_nulls",
]


def validity(values: pa.Array) -> Bools:
    """Returns which values are not NULL."""
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))


def bitmap(present: Bools) -> pa.Buffer | None:
    """Returns Arrow's validity bitmap of the values that are `present`; None, as Arrow has it, when all are."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def with_nulls(values: pa.Array, present: Bools) -> pa.Array:
    """Returns `values`, which has no NULL and is no slice, with those that are not `present` as NULL; copies nothing."""
    return pa.Array.from_buffers(values.type, len(values), [bitmap(present), *values.buffers()[1:]])


def fixed_width(values: npt.NDArray[np.generic], kind: pa.DataType, present: Bools) -> pa.Array:
    """Returns an array of a fixed-width type whose memory is `values`; one value for each of `present`."""
    return pa.Array.from_buffers(kind, len(present), [bitmap(present), pa.py_buffer(np.ascontiguousarray(values))])


def variable_width(kind: pa.DataType, octets: Bytes, bounds: Int64s, present: Bools) -> pa.Array:
    """Returns a binary or string array; the inverse of `joined_bytes`.

    Args:
        kind: `pa.binary()`, `pa.string()`, or one of their large forms. Text is not validated.
        octets: The bytes of all values, one value after the other.
        bounds: Where each value begins and, at the end, where the last one ends. A value that is not present is empty.
        present: Which values are not NULL.

    Raises:
        ValueError: When there are more bytes than a type with 32-bit offsets can address.
    """
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not large and bounds[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"{bounds[-1]} bytes are too many for {kind}")
    offsets = bounds if large else bounds.astype(np.int32)
    buffers = [bitmap(present), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(kind, len(present), buffers)


def joined_bytes(values: pa.Array) -> tuple[Bytes, Int64s]:
    """Returns the bytes of all values, one after the other, and where each begins and the last ends; NULL has no bytes.

    Args:
        values: Of a binary or string type, large ones included; may be a slice. Without NULLs its bytes are not copied.
    """
    plain = values.fill_null(b"" if _is_binary(values.type) else "") if values.null_count else values
    if not len(plain):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = plain.buffers()
    width = np.int64 if pa.types.is_large_binary(plain.type) or pa.types.is_large_string(plain.type) else np.int32
    bounds = np.frombuffer(offsets, width)[plain.offset : plain.offset + len(plain) + 1].astype(np.int64)
    return np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]], bounds - bounds[0]


def spread(lengths: npt.NDArray[np.integer[npt.NBitBase]], present: Bools) -> Int64s:
    """Returns the bounds for `variable_width` from the lengths of the values that are present; the others are empty."""
    bounds = np.zeros(len(present) + 1, np.int64)
    bounds[1:][present] = lengths
    return np.cumsum(bounds)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
