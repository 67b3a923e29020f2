"""Decodes base64 text and builds Arrow arrays from numpy arrays, for whole columns at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import Int64s

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_PADDING, _OUTSIDE = 64, 255


def _alphabet() -> Bytes:
    """The value of each character: 0 to 63, including the URL-safe letters; 64 for `=`; 255 for others."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table = np.full(256, _OUTSIDE, np.uint8)
    table[np.frombuffer(letters, np.uint8)] = np.arange(64)
    table[ord("-")], table[ord("_")], table[ord("=")] = 62, 63, _PADDING
    return table


_ALPHABET = _alphabet()


def validity(values: pa.Array) -> Bools:
    """Which values are not NULL."""
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))


def joined(values: pa.Array) -> tuple[Bytes, Int64s]:
    """The concatenated bytes of all values, and where each begins and the last ends; NULL has no bytes."""
    plain = values.cast(pa.large_binary())
    if plain.null_count:
        plain = plain.fill_null(b"")
    if not len(plain):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = plain.buffers()
    bounds = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    return np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]], bounds - bounds[0]


def bitmap(present: Bools) -> pa.Buffer | None:
    """Arrow's validity bitmap; None if nothing is NULL."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def sized(octets: Bytes, bounds: Int64s, present: Bools) -> pa.BinaryArray:
    """A binary array from the concatenated bytes of all values."""
    buffers = [bitmap(present), pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(octets))]
    return pa.Array.from_buffers(pa.large_binary(), len(present), buffers).cast(pa.binary())


def from_base64(text: pa.Array) -> pa.BinaryArray:
    """The bytes of base64 text (with padding, as Jackson writes it); binary arrays are returned as they are.

    Raises:
        ValueError: When a value is not base64.
    """
    if pa.types.is_binary(text.type) or pa.types.is_large_binary(text.type):
        return text.cast(pa.binary())
    present = validity(text)
    characters, bounds = joined(text)
    lengths = np.diff(bounds)
    if (lengths % 4).any():
        raise ValueError("not base64: a length is not a multiple of 4")
    sextets = _ALPHABET[characters]
    padding = sextets == _PADDING
    # Padding may only be the last two characters of a value.
    ends = bounds[1:][lengths > 0]
    pads = np.zeros(len(present), np.int64)
    last, last_but_one = padding[ends - 1], padding[ends - 2]
    pads[lengths > 0] = last.astype(np.int64) + (last & last_but_one)
    if (sextets == _OUTSIDE).any() or int(padding.sum()) != int(pads.sum()):
        raise ValueError("not base64: an invalid character or padding")
    # The length of every value is a multiple of four, so all values together are one base64 text.
    groups = np.where(padding, 0, sextets).astype(np.uint32).reshape(-1, 4)
    packed = groups[:, 0] << 18 | groups[:, 1] << 12 | groups[:, 2] << 6 | groups[:, 3]
    octets = packed.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:].reshape(-1)
    kept = lengths // 4 * 3 - pads
    out = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=out[1:])
    if pads.any():
        whole_ends = bounds[1:] // 4 * 3
        keep = np.ones(len(octets), np.bool_)
        keep[whole_ends[pads > 0] - 1] = False
        keep[whole_ends[pads > 1] - 2] = False
        octets = octets[keep]
    return sized(octets, out, present)


def right_aligned(values: pa.BinaryArray, width: int, signed: bool) -> Bytes:
    """A matrix with a row of `width` bytes for each value, aligned at the right; filled with the sign or zeros.

    NULL and empty values are zeros. Bytes beyond `width` that only repeat the sign are cut off.

    Raises:
        ValueError: When a value needs more bytes.
    """
    octets, bounds = joined(values)
    lengths = np.diff(bounds)
    matrix = np.zeros((len(lengths), width), np.uint8)
    some = lengths > 0
    if signed:
        negative = np.zeros(len(lengths), np.bool_)
        negative[some] = octets[bounds[:-1][some]] >= 128
        matrix[negative] = 255
    back = bounds[1:, None] - np.arange(width, 0, -1)[None, :]
    inside = back >= bounds[:-1, None]
    matrix[inside] = octets[back[inside]]
    if (lengths > width).any():
        _refuse_longer(octets, bounds, matrix, width, signed)
    return matrix


def _refuse_longer(octets: Bytes, bounds: Int64s, matrix: Bytes, width: int, signed: bool) -> None:
    for i in np.flatnonzero(np.diff(bounds) > width):
        head = octets[bounds[i] : bounds[i + 1] - width]
        sign = 255 if signed and matrix[i, 0] >= 128 else 0
        if (head != sign).any():
            raise ValueError("a number has too many digits for its type")
