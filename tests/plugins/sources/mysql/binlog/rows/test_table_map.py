from __future__ import annotations

import struct

import pytest

from replicator_sdk.errors import BugError
from replicator_source_mysql.binlog.rows.storage_types import StorageType, is_compatible
from replicator_source_mysql.binlog.rows.table_map import TableMaps, parse_table_map
from replicator_source_mysql.definition import ColumnDefinition
from tests.plugins.sources.mysql.binlog.event_bytes import event, packets, started


def body(types: bytes, metadata: bytes, table: str = "t", table_id: int = 7) -> bytes:
    name = table.encode()
    return (
        struct.pack("<IHH", table_id, 0, 1) + b"\2db\0" + bytes([len(name)]) + name + b"\0" + bytes([len(types)]) + types
        + bytes([len(metadata)]) + metadata + bytes((len(types) + 7) // 8)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "metadata", "form"),
    [
        (1, b"", StorageType(1, 0)),
        (9, b"", StorageType(3, 0)),
        (4, b"\4", StorageType(4, 0)),
        (18, b"\6", StorageType(8, 0)),
        (17, b"\3", StorageType(6, 0)),
        (19, b"\0", StorageType(3, 0)),
        (15, b"\xff\0", StorageType(0, 1)),
        (15, b"\0\1", StorageType(0, 2)),
        (16, b"\1\1", StorageType(2, 0)),
        (246, b"\x41\x1e", StorageType(30, 0)),  # DECIMAL(65,30)
        (246, b"\x0c\x02", StorageType(6, 0)),
        (252, b"\4", StorageType(0, 4)),
        (245, b"\4", StorageType(0, 4)),
        (242, b"\4", StorageType(0, 4)),
        (254, b"\xfe\x0a", StorageType(0, 1)),
        (254, b"\xee\xfc", StorageType(0, 2)),  # CHAR(255) of four bytes each: 1020
        (254, b"\xf7\2", StorageType(2, 0)),
        (254, b"\xf8\7", StorageType(7, 0)),
        (140, b"\2", StorageType(0, 2)),
    ],
)
def test_widths_follow_from_type_and_metadata(kind: int, metadata: bytes, form: StorageType) -> None:
    assert parse_table_map(body(bytes([kind]), metadata), "x:1").physical == (form,)


@pytest.mark.parametrize(
    "broken",
    [
        body(b"\x63", b""),  # an unknown type
        body(b"\x03\x0f", b"\5"),  # metadata too short
        body(b"\x03", b"\5\5"),  # and too long
        body(b"\x03", b"")[:-1],
        body(b"\xfc", b"\x09"),  # a length of nine bytes
    ],
)
def test_a_broken_table_map_is_an_error(broken: bytes) -> None:
    with pytest.raises(BugError, match=r"RPL-3710.*x:1"):
        parse_table_map(broken, "x:1")


def test_the_same_announcement_is_the_same_object() -> None:
    raw, other = body(b"\x03", b""), body(b"\x03", b"", table="other")
    size = 23
    events = started().frame(
        packets(
            event(19, raw, 4 + size + len(raw)),
            event(19, raw, 4 + 2 * (size + len(raw))),
            event(19, other, 4 + 3 * size + 2 * len(raw) + len(other)),
        )
    )
    maps = TableMaps()
    first, again, third = (maps.learn(events, rank) for rank in range(3))
    assert first is again
    assert third is not first
    assert (str(first), str(third)) == ("db.t", "db.other")


@pytest.mark.parametrize(
    ("declared", "kind", "metadata", "fits"),
    [
        ("int unsigned", 3, 0, True),
        ("int", 8, 0, False),
        ("decimal(12,2)", 246, 12 | 2 << 8, True),
        ("decimal(12,2)", 246, 12 | 3 << 8, False),
        ("datetime(3)", 18, 3, True),
        ("datetime", 18, 3, False),
        ("bit(9)", 16, 1 | 1 << 8, True),
        ("bit(1)", 16, 1 | 1 << 8, False),
        ("text", 252, 2, True),
        ("longtext", 252, 2, False),
        ("point", 255, 4, True),
        ("varchar(10)", 3, 0, False),
        ("enum('a')", 247, 1, True),
        ("set('a')", 247, 1, False),
    ],
)
def test_a_definition_fits_only_what_it_would_not_misread(declared: str, kind: int, metadata: int, fits: bool) -> None:
    assert is_compatible(ColumnDefinition("c", declared), kind, metadata) is fits
