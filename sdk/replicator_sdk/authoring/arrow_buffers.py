"""Converts between NumPy arrays and Arrow's buffers, without Python code per value."""

from __future__ import annotations

from typing import Any

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
    "binary_ranges",
    "bitmap",
    "bounds_of",
    "fixed_width",
    "joined_bytes",
    "validity",
    "variable_width",
    "with_nulls",
]

_LARGEST_OFFSET = np.iinfo(np.int32).max


def validity(values: pa.Array) -> Bools:
    """Returns which values are not NULL."""
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))


def bitmap(present: Bools) -> pa.Buffer | None:
    """Returns Arrow's validity bitmap of the values that are `present`; None, as Arrow has it, when all are."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def with_nulls(values: pa.Array, present: Bools) -> pa.Array:
    """Returns `values` with those that are not `present` as NULL too; copies nothing unless its type is nested.

    Args:
        values: Of any type but a dictionary; may be a slice and may have NULLs.
        present: Which values stay as they are.
    """
    if pa.types.is_nested(values.type):
        return values.take(pa.array(np.arange(len(values)), mask=~present))
    valid = present & validity(values) if values.null_count else present
    if values.offset:
        # One offset holds for all buffers of an array, so the bits before it are needed too.
        valid = np.concatenate([np.ones(values.offset, np.bool_), valid])
    buffers = [bitmap(valid), *values.buffers()[1:]]
    return pa.Array.from_buffers(values.type, len(values), buffers, offset=values.offset)


def fixed_width(values: npt.NDArray[np.generic], kind: pa.DataType, present: Bools) -> pa.Array:
    """Returns an array of a fixed-width type whose memory is `values`; one value for each of `present`."""
    return pa.Array.from_buffers(kind, len(present), [bitmap(present), pa.py_buffer(np.ascontiguousarray(values))])


def variable_width(kind: pa.DataType, octets: Bytes, bounds: Int64s, present: Bools | None = None) -> pa.Array:
    """Returns a binary or string array; the inverse of `joined_bytes`.

    Args:
        kind: `pa.binary()`, `pa.string()`, or one of their large forms. Text is not validated.
        octets: The bytes of all values, one value after the other.
        bounds: Where each value begins and, at the end, where the last one ends. A value that is not present is empty.
        present: Which values are not NULL; None: all.

    Raises:
        ValueError: When there are more bytes than a type with 32-bit offsets can address.
    """
    large = _is_large(kind)
    if not large and bounds[-1] > _LARGEST_OFFSET:
        raise ValueError(f"{bounds[-1]} bytes are too many for {kind}")
    offsets = bounds.astype(np.int64 if large else np.int32, copy=False)
    buffers = [
        None if present is None else bitmap(present),
        pa.py_buffer(np.ascontiguousarray(offsets)),
        pa.py_buffer(np.ascontiguousarray(octets)),
    ]
    return pa.Array.from_buffers(kind, len(bounds) - 1, buffers)


def joined_bytes(values: pa.Array) -> tuple[Bytes, Int64s]:
    """Returns the bytes of all values, one after the other, and where each begins and the last ends; NULL has no bytes.

    Args:
        values: Of a binary or string type, large ones included; may be a slice. Without NULLs its bytes are not copied.
    """
    plain = values.fill_null(b"" if _is_binary(values.type) else "") if values.null_count else values
    if not len(plain):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = plain.buffers()
    width = np.int64 if _is_large(plain.type) else np.int32
    bounds = np.frombuffer(offsets, width)[plain.offset : plain.offset + len(plain) + 1].astype(np.int64, copy=False)
    return np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]], bounds - bounds[0]


def bounds_of(lengths: npt.NDArray[np.integer[Any]], present: Bools | None = None) -> Int64s:
    """Returns the bounds for `variable_width` from the lengths of values.

    Args:
        lengths: Of all values; with `present`, of those alone that are present.
        present: Which values are not NULL; the others are empty. None: `lengths` has all values.
    """
    bounds = np.zeros((len(lengths) if present is None else len(present)) + 1, np.int64)
    if present is None:
        np.cumsum(lengths, out=bounds[1:])
        return bounds
    bounds[1:][present] = lengths
    return np.cumsum(bounds)


def binary_ranges(
    data: pa.Buffer, start: Int64s, end: Int64s, *, present: Bools | None = None, ranks: Int64s | None = None
) -> pa.BinaryArray:
    """Returns ranges of a buffer as values; one call of Arrow's copies all of them.

    Args:
        data: The buffer; it may have bytes between the ranges.
        start: Where each range begins.
        end: Where it ends. Places in the buffer also for a range that no value is.
        present: Which values of the result are not NULL; None: all.
        ranks: Which range each value of the result is; None: each range is one, in order. Of a NULL it is any rank.

    Raises:
        ArrowException: When the result has more bytes than binary arrays can address.
    """
    count = len(start) if ranks is None else len(ranks)
    if not len(start):
        return pa.nulls(count, pa.binary())
    large = data.size > _LARGEST_OFFSET
    # Gaps and ranges in turns, of which every second one is taken. Arrow checks that the last place is not before the first.
    places = np.empty(2 * len(start) + 1, np.int64 if large else np.int32)
    places[0] = min(start[0], end[-1])
    places[1::2] = start
    places[2::2] = end
    kind = pa.large_binary() if large else pa.binary()
    strips = pa.Array.from_buffers(kind, len(places) - 1, [None, pa.py_buffer(places), data], null_count=0)
    picks = np.arange(1, len(places), 2, dtype=np.int64) if ranks is None else 2 * ranks + 1
    missing = None if present is None or present.all() else ~present
    taken = pc.take(strips, pa.array(picks, mask=missing), boundscheck=False)
    return taken.cast(pa.binary()) if large else taken


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_binary(kind) or pa.types.is_large_string(kind))
