"""Expands compressed events, so that the rest of the reader sees plain ones only.

MySQL (`binlog_transaction_compression`): one event holds a whole transaction's events but its GTID; fields of type, length
and value, then a zstd frame or the plain bytes ("Transaction_payload_event" in `codecs/binary.cpp`). MariaDB
(`log_bin_compress`): the statement of a QUERY or the rows of a row event are a zlib stream after a byte that says how many
bytes of length follow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from replicator_source_mysql.binlog.dump.event_concat import EventConcat
from replicator_source_mysql.binlog.event import HEADER_BYTES, Events, Kind
from replicator_source_mysql.binlog.event_errors import broken_event

_PLAIN = {
    Kind.MARIADB_QUERY_COMPRESSED: Kind.QUERY,
    Kind.MARIADB_WRITE_ROWS_COMPRESSED_1: Kind.WRITE_ROWS_1,
    Kind.MARIADB_UPDATE_ROWS_COMPRESSED_1: Kind.UPDATE_ROWS_1,
    Kind.MARIADB_DELETE_ROWS_COMPRESSED_1: Kind.DELETE_ROWS_1,
    Kind.MARIADB_WRITE_ROWS_COMPRESSED: Kind.WRITE_ROWS,
    Kind.MARIADB_UPDATE_ROWS_COMPRESSED: Kind.UPDATE_ROWS,
    Kind.MARIADB_DELETE_ROWS_COMPRESSED: Kind.DELETE_ROWS,
}
_COMPRESSED = (Kind.TRANSACTION_PAYLOAD, *_PLAIN)
_TWO_IMAGES = {Kind.UPDATE_ROWS_1, Kind.UPDATE_ROWS}
_SECOND = {Kind.WRITE_ROWS, Kind.UPDATE_ROWS, Kind.DELETE_ROWS}

_END, _SIZE, _ALGORITHM, _UNCOMPRESSED = 0, 1, 2, 3
_ZSTD, _NONE = 0, 255
_BLOCK = 1 << 22


def expanded(events: Events) -> Iterator[Events]:
    """The same events, each compressed one replaced by what is in it; some megabytes at a time.

    Raises:
        BugError: On a compressed event that does not keep to its format.
    """
    places = events.where(_COMPRESSED).tolist()
    if not places:
        if len(events):
            yield events
        return
    joiner = EventConcat(events.names)
    done = 0
    for index in places:
        joiner.add(events.part(done, index))
        if events.kind[index] == Kind.TRANSACTION_PAYLOAD:
            for block in _transaction(events, index):
                joiner.add_inner(block, events, index)
                yield from joiner.full(_BLOCK)
        else:
            joiner.add_one(*_plain(events, index), events, index)
            yield from joiner.full(_BLOCK)
        done = index + 1
    joiner.add(events.part(done, len(events)))
    yield from joiner.full(0)


def _transaction(events: Events, index: int) -> Iterator[bytes]:
    """The bytes of whole inner events, in blocks."""
    at, fields = _fields(events, index)
    start, end = int(events.start[index]) + at, int(events.end[index])
    if fields.get(_SIZE) != end - start or fields.get(_ALGORITHM, _ZSTD) not in {_ZSTD, _NONE}:
        raise _broken(
            events, index, "a compressed transaction with an unknown compression or another size than it says"
        )
    payload = events.data.data[start:end]
    blocks = _unzstd(payload, events, index) if fields.get(_ALGORITHM, _ZSTD) == _ZSTD else iter([bytes(payload)])
    rest, total = b"", 0
    for block in blocks:
        total += len(block)
        rest += block
        whole = _whole_events(rest, events, index)
        if whole:
            yield rest[:whole]
            rest = rest[whole:]
    if rest or total != fields.get(_UNCOMPRESSED, total):
        raise _broken(events, index, "a compressed transaction that ends inside an event")


def _fields(events: Events, index: int) -> tuple[int, dict[int, int]]:
    """The payload's offset in the body and the numbers before it."""
    body = events.data[events.start[index] : min(events.end[index], events.start[index] + 256)].tobytes()
    fields: dict[int, int] = {}
    at = 0
    try:
        while True:
            kind, at = _packed(body, at)
            if kind == _END:
                return at, fields
            size, at = _packed(body, at)
            fields[kind], _ = _packed(body, at)
            at += size
    except IndexError as err:
        raise _broken(events, index, "a compressed transaction whose header has no end") from err


def _packed(body: bytes, at: int) -> tuple[int, int]:
    """A length-encoded number, and where the next byte is."""
    first = body[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first] if first in {0xFC, 0xFD, 0xFE} else 0
    if size == 0 or at + 1 + size > len(body):
        raise IndexError(at)
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size


def _unzstd(payload: memoryview, events: Events, index: int) -> Iterator[bytes]:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(payload, read_across_frames=True) as reader:
        try:
            while block := reader.read(_BLOCK):
                yield block
        except zstandard.ZstdError as err:
            raise _broken(events, index, "a compressed transaction that zstd cannot read") from err


def _whole_events(data: bytes, events: Events, index: int) -> int:
    """How many bytes of `data` are whole events."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if size < HEADER_BYTES:
            raise _broken(events, index, "a compressed transaction with an event shorter than its header")
        if at + size > len(data):
            break
        at += size
    return at


def _plain(events: Events, index: int) -> tuple[Kind, bytes]:
    """MariaDB's compressed event as the plain one."""
    body = events.body(index)
    kind = _PLAIN[Kind(int(events.kind[index]))]
    try:
        at = _statement_at(body) if kind == Kind.QUERY else _rows_at(kind, body)
        return kind, body[:at] + _inflate(body, at)
    except (IndexError, ValueError, zlib.error) as err:
        raise _broken(events, index, "a compressed event that zlib cannot read") from err


def _statement_at(body: bytes) -> int:
    """Thread (4), time (4), length of the database (1), error (2), length of the variables (2), both, a zero byte."""
    return 13 + int.from_bytes(body[11:13], "little") + body[8] + 1


def _rows_at(kind: Kind, body: bytes) -> int:
    at = 8 + (int.from_bytes(body[8:10], "little") if kind in _SECOND else 0)
    width, at = _packed(body, at)
    return at + (width + 7) // 8 * (2 if kind in _TWO_IMAGES else 1)


def _inflate(body: bytes, at: int) -> bytes:
    """A byte 1aaa0lll (aaa the algorithm, 0 for zlib; lll bytes of length), the length big-endian, a zlib stream."""
    mark = body[at]
    size = mark & 7
    if mark & 0xF8 != 0x80 or size == 0:
        raise ValueError(mark)
    length = int.from_bytes(body[at + 1 : at + 1 + size], "big")
    stream = zlib.decompressobj()
    plain = stream.decompress(body[at + 1 + size :], length + 1)
    if len(plain) != length or not stream.eof:
        raise ValueError(length)
    return plain


def _broken(events: Events, index: int, what: str) -> Exception:
    return broken_event(what, str(events.place(index)))
