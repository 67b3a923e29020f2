"""Types whose value is a few bytes: BINARY(n), BIT, geometries, vectors, UUIDs and network addresses."""

from __future__ import annotations

import ipaddress

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import (
    Bytes,
    bounds_of,
    joined_bytes,
    validity,
    variable_width,
    with_nulls,
)
from replicator_sdk.authoring.characters import matrix_rows, uuid_text, write_digits
from replicator_sdk.datatype import DataType
from replicator_source_mysql.types.values.arrays import Cells, matrix_of

_SRID = 4
_FLOAT = 4
_UUID_STORED = (12, 13, 14, 15, 10, 11, 8, 9, 6, 7, 0, 1, 2, 3, 4, 5)
"""Where MariaDB stores each byte of a UUID that has a time: the node first, so that equal nodes sort together."""


def padded(raw: pa.BinaryArray, width: int) -> pa.BinaryArray:
    """BINARY(n) with the zeros at its end that the log leaves out."""
    octets, bounds = joined_bytes(raw)
    lengths = np.diff(bounds)
    present = validity(raw)
    if (lengths[present] == width).all():
        return raw
    sizes = np.where(present, width, 0)
    padded_bounds = bounds_of(sizes)
    matrix = np.zeros(int(padded_bounds[-1]), np.uint8)
    # Where each value's first byte goes, minus where it comes from, holds for all its bytes.
    moved = (padded_bounds - bounds)[:-1]
    if (lengths > sizes).any():
        raise ValueError("longer than its type")
    matrix[np.arange(len(octets)) + np.repeat(moved, lengths)] = octets
    return variable_width(pa.binary(), matrix, padded_bounds, present)


def booleans(raw: pa.BinaryArray) -> pa.BooleanArray:
    """BIT(1)."""
    return pa.array(matrix_of(raw, 1)[:, 0] != 0, pa.bool_(), mask=~validity(raw))


def well_known_binary(raw: pa.BinaryArray) -> pa.BinaryArray:
    """A geometry without the four bytes of its spatial reference before it."""
    octets, bounds = joined_bytes(raw)
    lengths = np.diff(bounds)
    skipped = np.minimum(lengths, _SRID)
    # Not `pc.binary_slice`, which fails on a column with many NULLs.
    return Cells(octets, bounds[:-1] + skipped, lengths - skipped, validity(raw)).binary()


def floats(raw: pa.BinaryArray, target: DataType) -> pa.Array:
    """A vector: 32-bit floats, little-endian."""
    octets, bounds = joined_bytes(raw)
    if (bounds % _FLOAT).any():
        raise ValueError("a part of a number")
    offsets = (bounds // _FLOAT).astype(np.int32)
    values = pa.array(np.frombuffer(octets.tobytes(), "<f4"))
    mask = None if not raw.null_count else pa.array(~validity(raw))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=target.arrow, mask=mask)


def uuids(raw: pa.BinaryArray, *, is_old: bool) -> pa.StringArray:
    """MariaDB's UUIDs in the 36-character form.

    Args:
        raw: The 16 bytes in MariaDB's order.
        is_old: Whether the column was made by a version that moved the parts of every UUID; later ones leave those of
            version 6 and up as they are.
    """
    stored = matrix_of(padded(raw, 16), 16)
    moved = np.ones(len(stored), np.bool_) if is_old else stored[:, 6] >= 0x80
    octets = np.where(moved[:, None], stored[:, _UUID_STORED], stored)
    return uuid_text(octets, validity(raw))


def inet4(raw: pa.BinaryArray) -> pa.StringArray:
    """MariaDB's INET4 as dotted numbers."""
    octets = matrix_of(padded(raw, 4), 4)
    text = np.tile(np.frombuffer(b"000.000.000.000", np.uint8), (len(octets), 1))
    keep = np.ones(text.shape, np.bool_)
    for rank in range(4):
        values = octets[:, rank].astype(np.int64)
        write_digits(text, 4 * rank, 3, values)
        keep[:, 4 * rank] = values >= 100
        keep[:, 4 * rank + 1] = values >= 10
    return matrix_rows(pa.string(), text, keep=keep, present=validity(raw))


def inet6(raw: pa.BinaryArray) -> pa.StringArray:
    """MariaDB's INET6 in the form it prints; the rules of shortening leave only a loop over the distinct addresses."""
    octets: Bytes = np.ascontiguousarray(matrix_of(padded(raw, 16), 16))
    distinct, place = np.unique(octets, axis=0, return_inverse=True)
    names = pa.array([_inet6_text(address.tobytes()) for address in distinct], pa.string())
    return with_nulls(names.take(pa.array(place.reshape(-1))), validity(raw))


def _inet6_text(address: bytes) -> str:
    words = [int.from_bytes(address[at : at + 2], "big") for at in range(0, 16, 2)]
    gap, length = _longest_gap(words)
    parts = [f"{word:x}" for word in words]
    if gap == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        parts[6:] = [str(ipaddress.IPv4Address(address[12:]))]
    if not length:
        return ":".join(parts)
    return ":".join(parts[:gap]) + "::" + ":".join(parts[gap + length :])


def _longest_gap(words: list[int]) -> tuple[int, int]:
    """Where the longest run of zero words begins, the first of equally long ones, and its length."""
    best, length, at = 0, 0, 0
    while at < len(words):
        end = at
        while end < len(words) and words[end] == 0:
            end += 1
        if end - at > length:
            best, length = at, end - at
        at = end + 1
    return best, length
