"""Murmur3 (32 bits, x86) of whole columns, as Iceberg's bucket transform hashes values."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint32]
_FIRST: Final = np.uint32(0xCC9E2D51)
_SECOND: Final = np.uint32(0x1B873593)
_WIDTH: Final = 16  # bytes of a decimal in Arrow


def hash_numbers(values: npt.NDArray[np.int64]) -> Hashes:
    """The hash of each number as eight bytes, which Iceberg hashes int, long, date and timestamps by."""
    words = values.view(np.uint64)
    made = np.zeros(len(values), np.uint32)
    for part in (words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)):
        made = _mixed(made, part.astype(np.uint32))
    return _finished(made, np.full(len(values), 8, np.uint32))


def hash_bytes(values: pa.Array) -> Hashes:
    """The hash of each text or binary value; of NULL any.

    Each step mixes the next four bytes of all values that have so many.
    """
    values = values.cast(pa.binary())
    size = len(values)
    ends = np.frombuffer(values.buffers()[1] or bytes(4), np.int32)[values.offset : values.offset + size + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    data = np.concatenate([data, np.zeros(4, np.uint8)])  # the last value's rest is read as four bytes
    starts, sizes = (ends[:-1] - ends[0]).astype(np.int64), np.diff(ends)
    longest_first = np.argsort(-sizes, kind="stable")
    blocks = sizes[longest_first] // 4
    ascending, places = blocks[::-1], starts[longest_first]
    mixed = np.zeros(size, np.uint32)
    for block in range(int(blocks[0]) if size else 0):
        active = size - int(np.searchsorted(ascending, block, "right"))
        mixed[:active] = _mixed(mixed[:active], _words(data, places[:active] + 4 * block))
    made = np.empty(size, np.uint32)
    made[longest_first] = mixed
    rest = (sizes % 4).astype(np.int64)
    kept = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[rest]
    made ^= _scrambled(_words(data, starts + sizes - rest) & kept)
    return _finished(made, sizes.astype(np.uint32))


def decimal_bytes(values: pa.Array) -> pa.Array:
    """The unscaled value of each decimal in as few bytes as hold it, the highest first; of NULL any."""
    size = len(values)
    if not size:
        return pa.array([], pa.binary())
    raw = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, _WIDTH)[values.offset : values.offset + size, ::-1]
    is_negative = raw[:, 0] >= 128
    is_filling = raw == np.where(is_negative, 255, 0).astype(np.uint8)[:, None]
    first = np.argmin(np.column_stack([is_filling, np.zeros(size, np.bool_)]), axis=1)
    first = np.minimum(first, _WIDTH - 1)
    first = first - ((raw[np.arange(size), first] >= 128) != is_negative)  # the first byte has the sign
    content = raw[np.arange(_WIDTH) >= first[:, None]]
    ends = np.concatenate([[0], np.cumsum(_WIDTH - first)]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), size, [None, pa.py_buffer(ends), pa.py_buffer(content)])


def _words(data: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> Hashes:
    """The four bytes at each place, the lowest first."""
    made = np.zeros(len(places), np.uint32)
    for byte in range(4):
        made |= data[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return made


def _scrambled(block: Hashes) -> Hashes:
    return _rotated(block * _FIRST, 15) * _SECOND


def _mixed(made: Hashes, block: Hashes) -> Hashes:
    return _rotated(made ^ _scrambled(block), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(words: Hashes, by: int) -> Hashes:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def _finished(made: Hashes, sizes: Hashes) -> Hashes:
    made = made ^ sizes
    for factor, by in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        made = (made ^ (made >> np.uint32(by))) * np.uint32(factor)
    return made ^ (made >> np.uint32(16))
