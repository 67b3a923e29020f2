from __future__ import annotations

import struct
import zlib

import pytest
import zstandard

from replicator_sdk.errors import BugError
from replicator_source_mysql.binlog.dump import compressed_events as compressed
from replicator_source_mysql.binlog.dump.compressed_events import expanded
from replicator_source_mysql.binlog.event import Events, Kind
from tests.plugins.sources.mysql.binlog.event_bytes import event, packets, started

XID = struct.pack("<Q", 1)


def framed(*bodies: tuple[int, bytes]) -> Events:
    raw, position = [], 4
    for kind, body in bodies:
        position += 23 + len(body)
        raw.append(event(kind, body, position))
    return started().frame(packets(*raw))


def number(value: int) -> bytes:
    return (
        bytes([value])
        if value < 251
        else b"\xfc" + struct.pack("<H", value)
        if value < 65536
        else b"\xfd" + value.to_bytes(3, "little")
    )


def payload(inner: bytes, algorithm: int, *, size: int | None = None) -> bytes:
    packed = zstandard.compress(inner) if algorithm == 0 else inner
    fields = {1: len(packed), 2: algorithm, 3: len(inner) if size is None else size}
    head = b"".join(bytes([kind]) + number(len(number(value))) + number(value) for kind, value in fields.items())
    return head + b"\0" + packed


def inner(*bodies: bytes) -> bytes:
    return b"".join(event(Kind.QUERY, body, 0, checksum=False, timestamp=99) for body in bodies)


@pytest.mark.parametrize("algorithm", [0, 255])
def test_a_compressed_transactions_events_replace_it(algorithm: int) -> None:
    events = framed(
        (Kind.GTID, b"g"), (Kind.TRANSACTION_PAYLOAD, payload(inner(b"one", b"two"), algorithm)), (Kind.XID, XID)
    )
    (plain,) = expanded(events)
    assert plain.kind.tolist() == [Kind.GTID, Kind.QUERY, Kind.QUERY, Kind.XID]
    assert [plain.body(rank) for rank in range(4)] == [b"g", b"one", b"two", XID]
    position = events.position.tolist()
    assert plain.position.tolist() == [position[0], position[1], position[1], position[2]]
    assert plain.timestamp.tolist() == [7, 99, 99, 7]


def test_a_large_compressed_transaction_comes_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "_BLOCK", 1000)
    bodies = [bytes([rank % 256]) * (rank % 700) for rank in range(200)]
    parts = list(expanded(framed((Kind.TRANSACTION_PAYLOAD, payload(inner(*bodies), 0)))))
    assert len(parts) > 10
    assert max(len(part.data) for part in parts) < 3000
    assert [part.body(rank) for part in parts for rank in range(len(part))] == bodies


@pytest.mark.parametrize(
    "body",
    [
        payload(inner(b"one"), 0)[:-3],
        payload(inner(b"one")[:-2], 0),
        payload(inner(b"one"), 0, size=5),
        payload(inner(b"one"), 7),
        payload(b"\0" * 40, 0),
        b"\1\1",
        b"\1\1\2\2\1\0\0ab",
    ],
    ids=["cut", "half-event", "size", "algorithm", "no-size", "header", "not-zstd"],
)
def test_a_broken_compressed_transaction_is_an_error(body: bytes) -> None:
    with pytest.raises(BugError, match=r"RPL-3710.*log\.000001:"):
        list(expanded(framed((Kind.TRANSACTION_PAYLOAD, body))))


def test_an_unknown_event_inside_a_compressed_transaction_is_an_error() -> None:
    with pytest.raises(BugError, match="RPL-3702: unknown event type 77"):
        list(expanded(framed((Kind.TRANSACTION_PAYLOAD, payload(event(77, b"", 0, checksum=False), 0)))))


def squeezed(plain: bytes) -> bytes:
    size = max(1, (len(plain).bit_length() + 7) // 8)
    return bytes([0x80 | size]) + len(plain).to_bytes(size, "big") + zlib.compress(plain)


def test_mariadbs_compressed_statement_and_rows_become_plain_ones() -> None:
    statement = struct.pack("<IIBHH", 1, 2, 2, 0, 3) + b"abc" + b"db\0"
    rows = b"\1\0\0\0\0\0\0\0" + b"\x09" + b"\xff\1"
    twice = b"\1\0\0\0\0\0\0\0" + b"\x09" + b"\xff\1\xff\1"
    events = framed(
        (Kind.MARIADB_QUERY_COMPRESSED, statement + squeezed(b"CREATE TABLE t(a int)")),
        (Kind.MARIADB_WRITE_ROWS_COMPRESSED_1, rows + squeezed(b"r" * 70_000)),
        (Kind.MARIADB_UPDATE_ROWS_COMPRESSED_1, twice + squeezed(b"u" * 300)),
    )
    (plain,) = expanded(events)
    assert plain.kind.tolist() == [Kind.QUERY, Kind.WRITE_ROWS_1, Kind.UPDATE_ROWS_1]
    assert plain.body(0) == statement + b"CREATE TABLE t(a int)"
    assert plain.body(1) == rows + b"r" * 70_000
    assert plain.body(2) == twice + b"u" * 300


@pytest.mark.parametrize(
    "tail", [b"", b"\x91\1xx", b"\x80", b"\x81\5junk", squeezed(b"rows")[:-3], b"\x81\2" + zlib.compress(b"rows")]
)
def test_a_broken_compressed_event_is_an_error(tail: bytes) -> None:
    with pytest.raises(BugError, match="RPL-3710"):
        list(expanded(framed((Kind.MARIADB_WRITE_ROWS_COMPRESSED_1, b"\1\0\0\0\0\0\0\0\x01\xff" + tail))))


def test_nothing_is_copied_when_nothing_is_compressed() -> None:
    events = framed((Kind.XID, XID))
    assert list(expanded(events)) == [events]
