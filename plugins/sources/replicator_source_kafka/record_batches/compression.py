"""Decompresses record batches with the codecs that are part of Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from replicator_sdk.errors import DataError, NeedsUserError

_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_SNAPPY_MOST: Final = 64  # the most bytes that one byte can expand to


def decompress(codec: int, data: memoryview) -> bytes | memoryview:
    """The decompressed records of a batch.

    Raises:
        NeedsUserError: When this build of Arrow lacks the codec.
        DataError: When the codec is unknown or the data is corrupt. The checksum was right, so the client wrote it so.
    """
    if not codec:
        return data
    name = _NAMES.get(codec)
    if name is None:
        raise _unreadable(f"the unknown codec {codec}")
    if not _is_built(name):
        raise NeedsUserError(
            f"the topic's records are compressed with {name}, which this pyarrow was built without",
            code="RPL-3980",
            hint="pip install --force-reinstall pyarrow: the wheels of PyPI have all codecs",
        )
    try:
        return _snappy(data) if name == "snappy" else _stream(name, data)
    except (OSError, ValueError) as error:  # Arrow raises both
        raise _unreadable(f"{name}, and corrupt") from error


def _is_built(name: str) -> bool:
    return bool(pa.Codec.is_available(name))


def _unreadable(how: str) -> DataError:
    return DataError(
        f"a record batch cannot be read: it is compressed with {how}",
        code="RPL-3981",
        hint="check the client that wrote it; to continue after it, start the pipeline under another `name` with another target location and with startFrom",
    )


def _stream(name: str, data: memoryview) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name) as stream:
        return bytes(stream.read())


def _snappy(data: memoryview) -> bytes:
    """Snappy, in the Java client's framing of blocks, or a single block as other clients write it."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _block(data)
    blocks, at = [], _XERIAL_HEADER
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        blocks.append(_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _block(data: memoryview) -> bytes:
    """One block, which begins with its decompressed size."""
    size, shift = 0, 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(data) * _SNAPPY_MOST:
        raise ValueError("the decompressed size is impossible for so few bytes")
    return bytes(pa.decompress(pa.py_buffer(data), decompressed_size=size, codec="snappy"))
