"""Decodes base64 text and aligns numbers of any size, for whole columns at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bytes, Int64s, bounds_of, joined_bytes, validity, variable_width

_PADDING, _OUTSIDE = 64, 255


def _alphabet() -> Bytes:
    """The value of each character: 0 to 63, including the URL-safe letters; 64 for `=`; 255 for others."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table = np.full(256, _OUTSIDE, np.uint8)
    table[np.frombuffer(letters, np.uint8)] = np.arange(64)
    table[ord("-")], table[ord("_")], table[ord("=")] = 62, 63, _PADDING
    return table


_ALPHABET = _alphabet()


def from_base64(text: pa.Array) -> pa.BinaryArray:
    """The bytes of base64 text (with padding, as Jackson writes it); binary arrays are returned as they are.

    Raises:
        ValueError: When a value is not base64.
    """
    if pa.types.is_binary(text.type) or pa.types.is_large_binary(text.type):
        return text.cast(pa.binary())
    present = validity(text)
    characters, bounds = joined_bytes(text.cast(pa.large_binary()))
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
    if pads.any():
        whole_ends = bounds[1:] // 4 * 3
        keep = np.ones(len(octets), np.bool_)
        keep[whole_ends[pads > 0] - 1] = False
        keep[whole_ends[pads > 1] - 2] = False
        octets = octets[keep]
    return variable_width(pa.binary(), octets, bounds_of(kept), present)


def right_aligned(values: pa.BinaryArray, width: int, signed: bool) -> Bytes:
    """A matrix with a row of `width` bytes for each value, aligned at the right; filled with the sign or zeros.

    NULL and empty values are zeros. Bytes beyond `width` that only repeat the sign are cut off.

    Raises:
        ValueError: When a value needs more bytes.
    """
    octets, bounds = joined_bytes(values)
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
