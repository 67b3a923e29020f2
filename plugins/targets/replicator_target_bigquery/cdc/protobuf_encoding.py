"""Columns as Protocol Buffers: rows are put together from whole columns of encoded fields, no Python per row.

A column becomes an array of byte strings, each one field of a message (tag and value), NULL where the field is
absent; a message is the fields of its row joined. Only what BigQuery's Storage Write API takes is here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, bounds_of, joined_bytes, validity, variable_width
from replicator_sdk.authoring.characters import matrix_rows

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_LONGEST_VARINT: Final = 10
UInt64s = npt.NDArray[np.uint64]


def varints(number: int, values: pa.Array) -> pa.Array:
    """Whole numbers, as `int64` fields have them."""
    whole = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return _tagged(number, _VARINT, _encoded(whole.view(np.uint64)), values)


def doubles(number: int, values: pa.Array) -> pa.Array:
    """Numbers, as `double` fields have them."""
    exact = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    places = np.ascontiguousarray(exact, "<f8").view(np.uint8).reshape(len(exact), 8)
    return _tagged(number, _FIXED64, (places, np.ones(places.shape, np.bool_)), values)


def texts(number: int, values: pa.Array) -> pa.Array:
    """Byte strings, as `string`, `bytes` and message fields have them."""
    content = values.cast(pa.binary()) if not pa.types.is_binary(values.type) else values
    lengths = pc.fill_null(pc.binary_length(content), 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return joined([_tagged(number, _BYTES, _encoded(lengths.view(np.uint64)), values), content])


def joined(parts: list[pa.Array]) -> pa.Array:
    """The present parts of each row, concatenated; empty where all are absent."""
    nothing = pa.scalar(b"", pa.binary())
    # pyarrow drops a row whose parts are all NULL, so each row gets a part that is not.
    rows: pa.Array = pc.binary_join_element_wise(
        pa.repeat(nothing, len(parts[0])), *parts, nothing, null_handling="skip"
    )
    return rows


def absent(fields: pa.Array, where: pa.Array) -> pa.Array:
    """The fields, absent where `where` is NULL."""
    return pc.if_else(pc.is_valid(where), fields, pa.scalar(None, pa.binary()))


def _tagged(number: int, kind: int, value: tuple[Bytes, Bools], given: pa.Array) -> pa.Array:
    """A field for each value: its tag, then the bytes that are marked; NULL where none is given."""
    content, used = value
    (tag, length), size = _varint(number << 3 | kind), len(content)
    places = np.concatenate([np.broadcast_to(tag, (size, length)), content], axis=1)
    kept = np.concatenate([np.ones((size, length), np.bool_), used], axis=1)
    if not given.null_count:
        return matrix_rows(pa.binary(), places, keep=kept)
    return matrix_rows(pa.binary(), places, keep=kept, present=validity(given))


def _encoded(values: UInt64s) -> tuple[Bytes, Bools]:
    """Varints as rows of ten bytes, and which of them count."""
    widest = int(values.max()) if len(values) else 0
    width = max(1, min(_LONGEST_VARINT, -(-widest.bit_length() // 7)))
    rest = values[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))
    used = rest > 0
    used[:, 0] = True
    more = np.zeros_like(used)
    more[:, :-1] = used[:, 1:]
    groups = (rest & np.uint64(0x7F)) | (more.astype(np.uint64) << np.uint64(7))
    return groups.astype(np.uint8), used


def _varint(value: int) -> tuple[Bytes, int]:
    content, used = _encoded(np.array([value], np.uint64))
    tag = content[used]
    return tag, len(tag)


def concatenated(rows: pa.Array, lists: pa.ListArray) -> pa.Array:
    """The elements of each list, concatenated.

    Args:
        rows: A byte string for each element, in the order of `lists.flatten()`, none NULL.
        lists: The lists; NULL counts as empty.
    """
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    content, bounds = joined_bytes(rows)
    return variable_width(pa.binary(), content, bounds[bounds_of(lengths)])
