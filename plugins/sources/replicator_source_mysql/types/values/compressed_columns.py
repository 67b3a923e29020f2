"""MariaDB's compressed columns (`VARCHAR(100) COMPRESSED`), which the log holds as they are stored."""

from __future__ import annotations

import zlib

import pyarrow as pa

KINDS = frozenset({140, 141})
"""Type codes of compressed BLOB and TEXT, and of compressed VARCHAR and VARBINARY."""
_STORED, _ZLIB = 0, 8


def expand(raw: pa.BinaryArray) -> pa.BinaryArray:
    """The values as they were before compression; zlib's format leaves only a loop.

    Raises:
        ValueError: When a value is not in the format.
    """
    return pa.array([None if value is None else _expanded(value) for value in raw.to_pylist()], pa.binary())


def _expanded(value: bytes) -> bytes:
    """One value: empty, or a header byte, then the bytes as they are or the length and a deflate stream.

    The header has the method in its upper half, a bit for a stream without zlib's own header, and in three bits how many
    bytes the length has.
    """
    if not value:
        return value
    header = value[0]
    if header >> 4 == _STORED:
        return value[1:]
    if header >> 4 != _ZLIB:
        raise ValueError("an unknown method of compression")
    size = header & 7
    window = -zlib.MAX_WBITS if header & 8 else zlib.MAX_WBITS
    try:
        plain = zlib.decompress(value[1 + size :], window)
    except zlib.error:
        raise ValueError("a damaged stream") from None
    if len(plain) != int.from_bytes(value[1 : 1 + size], "big"):
        raise ValueError("another length than stated")
    return plain
