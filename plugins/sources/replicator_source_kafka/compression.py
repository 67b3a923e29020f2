"""The codecs of record batches, with those that come with Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_NAMES: Final = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY: Final = 2
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16


def decompress(codec: int, data: memoryview) -> bytes | memoryview:
    """The records behind a batch's header.

    Raises:
        ValueError: When the codec is unknown or the data is broken.
    """
    if not codec:
        return data
    if codec == _SNAPPY:
        return _snappy(data)
    if codec not in _NAMES:
        raise ValueError(f"compression {codec} is unknown")
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), _NAMES[codec]) as stream:
        return bytes(stream.read())


def _snappy(data: memoryview) -> bytes:
    """Snappy, framed in blocks as the Java client does, or one block as others do."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _block(data)
    blocks, at = [], _XERIAL_HEADER
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        blocks.append(_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _block(data: memoryview) -> bytes:
    """One block; it begins with its decompressed size."""
    size, shift = 0, 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.decompress(pa.py_buffer(data), decompressed_size=size, codec="snappy"))
