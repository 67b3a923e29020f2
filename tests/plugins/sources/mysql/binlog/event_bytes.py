"""Events made byte by byte."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from replicator_source_mysql.binlog.dump.framing import Framer
from replicator_source_mysql.binlog.event import Kind
from replicator_source_mysql.connect.packets import Packets


def event(kind: int, body: bytes, position: int, *, flags: int = 0, checksum: bool = True, timestamp: int = 7) -> bytes:
    """An event as a dump sends it, `position` its end as 64 bits (the header keeps 32 of them)."""
    size = 19 + len(body) + (4 if checksum else 0)
    header = struct.pack("<IBIIIH", timestamp, kind, 1, size, position % 2**32, flags)
    raw = header + body
    return raw + struct.pack("<I", zlib.crc32(raw)) if checksum else raw


def rotate(file: str, position: int, *, checksum: bool = True) -> bytes:
    """The ROTATE a server makes up at the beginning of a dump."""
    body = struct.pack("<Q", position) + file.encode()
    return event(Kind.ROTATE, body, 0, flags=0x20, checksum=checksum)


def format_description(position: int = 0, *, checksum: bool = True) -> bytes:
    lengths = bytearray(171)
    lengths[Kind.TABLE_MAP - 1] = 8
    body = struct.pack("<H50sIB", 4, b"8.0.36", 0, 19) + bytes(lengths) + bytes([1 if checksum else 0])
    raw = event(Kind.FORMAT_DESCRIPTION, body, position, checksum=True)
    return raw if checksum else raw[:-4] + b"\0\0\0\0"


def packets(*events: bytes) -> Packets:
    data, start, end = b"", [], []
    for raw in events:
        start.append(len(data))
        data += b"\0" + raw
        end.append(len(data))
    return Packets(np.frombuffer(data, np.uint8), np.array(start, np.int64), np.array(end, np.int64))


def started(*, checksum: bool = True, position: int = 4) -> Framer:
    """A framer that has seen the beginning of a dump of `log.000001`."""
    framer = Framer(None, has_checksum=checksum)
    framer.frame(packets(rotate("log.000001", position, checksum=checksum), format_description(checksum=checksum)))
    return framer
