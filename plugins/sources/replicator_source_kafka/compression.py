"""The codecs of record batches, with those that come with Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from replicator_sdk.errors import DataError, NeedsUserError

_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_SNAPPY_MOST: Final = 64  # bytes that one byte can stand for


def decompress(codec: int, data: memoryview) -> bytes | memoryview:
    """The records behind a batch's header.

    Raises:
        NeedsUserError: When this Arrow has no such codec.
        DataError: When there is no such codec, or the data is broken; its checksum was right, so it was written that way.
    """
    if not codec:
        return data
    name = _NAMES.get(codec)
    if name is None:
        raise _unreadable(f"codec {codec}, which is unknown")
    if not _is_built(name):
        raise NeedsUserError(
            f"the topic's records are compressed with {name}, which this pyarrow was built without",
            code="RPL-3980",
            hint="pip install --force-reinstall pyarrow: the wheels of PyPI have all codecs",
        )
    try:
        return _snappy(data) if name == "snappy" else _stream(name, data)
    except (OSError, ValueError) as error:  # Arrow raises both
        raise _unreadable(f"{name}, and broken") from error


def _is_built(name: str) -> bool:
    return bool(pa.Codec.is_available(name))


def _unreadable(how: str) -> DataError:
    return DataError(
        f"a record batch cannot be read: it is compressed with {how}",
        code="RPL-3981",
        hint="look at the client that wrote it; to go on behind it, start the pipeline under another `name` with another place at the target and with startFrom",
    )


def _stream(name: str, data: memoryview) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name) as stream:
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
    if size > len(data) * _SNAPPY_MOST:
        raise ValueError("more than snappy can make of so few bytes")
    return bytes(pa.decompress(pa.py_buffer(data), decompressed_size=size, codec="snappy"))
