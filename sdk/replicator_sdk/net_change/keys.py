"""Dense integer codes for rows, so that "the same key" is an integer comparison instead of a comparison of values.

Equality is SQL's `IS NOT DISTINCT FROM`: NULL equals NULL; besides, NaN equals NaN and -0.0 equals 0.0, as every
source and target with a float key holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s, combined

Bools = npt.NDArray[np.bool_]
_Scalar = TypeVar("_Scalar", bound=np.generic)

Codes = npt.NDArray[np.int32]
_PRODUCT_LIMIT = 2**62
_HASHED_ROWS = 1 << 16
_CLOSE = 4


def join(pieces: Sequence[npt.NDArray[_Scalar]], kind: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """All pieces in one array, also when there are none."""
    return np.concatenate(pieces) if pieces else np.empty(0, kind)


def encode_rows(columns: Sequence[pa.Array]) -> tuple[Int64s, int]:
    """A code for every row, equal exactly for equal rows, and how many different ones there are.

    Codes are dense, 0 to count - 1, in the order of first appearance.

    Args:
        columns: At least one array; all of one length; any standard type, nested ones included.
    """
    codes, count = _encode(columns[0])
    for column in columns[1:]:
        more, more_count = _encode(column)
        if count * more_count >= _PRODUCT_LIMIT:  # only after many wide columns; dense codes fit again
            codes, count = _densify(codes)
        codes, count = codes * more_count + more, count * more_count
    return (codes, count) if len(columns) == 1 else _densify(codes)


def look_up(rows: pa.Table, keys: pa.Table) -> Int64s:
    """For each of some rows the index of its key, -1 for none.

    Args:
        rows: The columns that are compared.
        keys: Distinct rows of the same columns.
    """
    if keys.num_columns == 1 and not _is_compared_by_codes(keys.schema.field(0).type):
        places = pc.index_in(combined(rows.column(0)), value_set=combined(keys.column(0)))
        found: Int64s = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found
    pairs = zip(keys.columns, rows.columns, strict=True)
    codes, count = encode_rows([pa.concat_arrays([combined(key), combined(row)]) for key, row in pairs])
    place = np.full(count, -1, np.int64)
    place[codes[: keys.num_rows]] = np.arange(keys.num_rows)
    return place[codes[keys.num_rows :]]


def _is_compared_by_codes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))


def encode_keys(columns: Sequence[pa.Array]) -> tuple[Codes, int]:
    """As `encode_rows`, faster and in less memory for one whole-number key; the codes' order means nothing.

    A hash table of many keys costs a cache miss and a hundred bytes a key. Ascending keys need no table at all, keys that
    are close together a table by value, of twenty bytes a key, and sorting takes as much.
    """
    only = columns[0]
    if len(columns) == 1 and len(only) and not only.null_count and pa.types.is_integer(only.type):
        encoded = _encode_numbers(only.to_numpy())
        if encoded is not None:
            return encoded
    codes, count = encode_rows(columns)
    return codes.astype(np.int32), count


def _encode_numbers(values: npt.NDArray[np.integer[Any]]) -> tuple[Codes, int] | None:
    """Codes of whole numbers without hashing; None for a few scattered ones, which are hashed as quickly."""
    if bool((values[1:] > values[:-1]).all()):
        return np.arange(len(values), dtype=np.int32), len(values)
    low, high = int(values.min()), int(values.max())
    if high - low < _CLOSE * len(values):
        return _encode_by_place(values.astype(np.int64, copy=False) - low, high - low + 1)
    if len(values) <= _HASHED_ROWS:
        return None
    order = np.argsort(values)
    steps = _steps(values[order])
    encoded = np.empty(len(values), np.int32)
    encoded[order] = steps
    return encoded, int(steps[-1]) + 1


def _encode_by_place(place: Int64s, size: int) -> tuple[Codes, int]:
    """Codes of numbers from 0 to `size` - 1."""
    there = np.zeros(size, np.bool_)
    there[place] = True
    found = np.flatnonzero(there)
    codes = np.empty(size, np.int32)
    codes[found] = np.arange(len(found), dtype=np.int32)
    return codes[place], len(found)


def _steps(ordered: npt.NDArray[np.integer[Any]]) -> Codes:
    """Codes of ascending values."""
    steps = np.zeros(len(ordered), np.int32)
    np.cumsum(ordered[1:] != ordered[:-1], dtype=np.int32, out=steps[1:])
    return steps


def _densify(codes: Int64s) -> tuple[Int64s, int]:
    return _encode_flat(pa.array(codes))


def _encode_flat(column: pa.Array) -> tuple[Int64s, int]:
    encoded = column.dictionary_encode("encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _encode(column: pa.Array) -> tuple[Int64s, int]:
    if pa.types.is_floating(column.type):
        # Arrow's hash distinguishes the zeros; -0.0 + 0.0 is 0.0.
        return _encode_flat(pc.add(column, pa.scalar(0.0, column.type)))
    if pa.types.is_list(column.type):
        return _encode_list(column)
    if pa.types.is_struct(column.type):
        return _encode_struct(column)
    return _encode_flat(column)


def _encode_list(column: pa.ListArray) -> tuple[Int64s, int]:
    """Codes of lists: the elements' codes laid side by side are the bytes of a binary value."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    elements, _ = _encode(column.values[offsets[0] : offsets[-1]]) if len(column) else (np.empty(0, np.int64), 0)
    starts = (offsets - offsets[0]) * elements.itemsize
    # A new bitmap, since that of a slice need not start at its first bit.
    valid = pa.array(pc.is_valid(column).to_numpy(zero_copy_only=False)).buffers()[1]
    texts = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(column), [valid, pa.py_buffer(starts), pa.py_buffer(elements)]
    )
    return _encode_flat(texts)


def _encode_struct(column: pa.StructArray) -> tuple[Int64s, int]:
    """Codes of records: those of their fields; a NULL record differs from a record of NULLs."""
    return encode_rows([pc.is_valid(column), *column.flatten()])
