"""Rows of a binlog file, found without the source's own reader of the log: plain Python, one row at a time."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field

from tests.services.mysql.server import MysqlServer

_TABLE_MAP, _FORMAT = 19, 15
_WRITES, _UPDATES, _PARTIAL = {23, 30}, {24, 31, 39}, 39
_WIDTHS = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 7: 4, 8: 8, 9: 3, 10: 3, 11: 3, 12: 8, 13: 1}
_FRACTIONAL = {17: 4, 18: 5, 19: 3}
_BLOBS = {252, 245, 255, 242, 140}
_TWO_BYTES = {15, 141, 246, 16, 254, 247, 248}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

Row = list[bytes | None]


@dataclass
class LoggedTable:
    """A table's rows in the log.

    Attributes:
        kinds: Type codes; ENUM, SET and CHAR have different ones.
        metadata: Metadata of the table map, low byte first.
        inserted: Rows inserted.
        updated: Images before and after.
        partial: For each update, the ranks of columns whose image after is a JSON diff.
    """

    kinds: list[int]
    metadata: list[int]
    inserted: list[Row] = field(default_factory=list)
    updated: list[tuple[Row, Row]] = field(default_factory=list)
    partial: list[set[int]] = field(default_factory=list)


def logged_tables(server: MysqlServer, database: str) -> dict[str, LoggedTable]:
    """All tables of `database` in the server's newest binlog file."""
    statement = "SHOW MASTER STATUS" if server.is_mariadb else "SHOW BINARY LOG STATUS"
    (name, position, *_) = server.query(statement)[0]
    return _read((server.data / name).read_bytes()[:position], database)


def _read(log: bytes, database: str) -> dict[str, LoggedTable]:
    tables: dict[str, LoggedTable] = {}
    maps: dict[int, str] = {}
    at, checksum = 4, 0
    while at < len(log):
        kind, size = log[at + 4], struct.unpack_from("<I", log, at + 9)[0]
        body = log[at + 19 : at + size - checksum]
        if kind == _FORMAT:
            checksum = 4 if body[-5] else 0
        elif kind == _TABLE_MAP:
            number = int.from_bytes(body[:6], "little")
            of, name, kinds, metadata = _table_map(body)
            maps.pop(number, None)
            if of == database:
                maps[number] = name
                tables.setdefault(name, LoggedTable(kinds, metadata))
        elif kind in _WRITES | _UPDATES:
            number = int.from_bytes(body[:6], "little")
            if number in maps:
                _rows(kind, body, tables[maps[number]])
        at += size
    return tables


def _table_map(body: bytes) -> tuple[str, str, list[int], list[int]]:
    size = body[8]
    database = body[9 : 9 + size].decode()
    at = 9 + size + 1
    name = body[at + 1 : at + 1 + body[at]].decode()
    at += body[at] + 2
    count = body[at]
    kinds = list(body[at + 1 : at + 1 + count])
    at += 1 + count
    at += 3 if body[at] == 252 else 1  # the length of the metadata
    metadata = []
    for rank, kind in enumerate(kinds):
        width = 2 if kind in _TWO_BYTES else 1 if kind in _BLOBS or kind in _FRACTIONAL or kind in {4, 5} else 0
        value = int.from_bytes(body[at : at + width], "little")
        at += width
        if kind == 254:
            real, length = value & 0xFF, value >> 8
            if real & 0x30 != 0x30:
                length, real = length | ((real & 0x30) ^ 0x30) << 4, real | 0x30
            kinds[rank], value = real, length
        metadata.append(value)
    return database, name, kinds, metadata


def _rows(kind: int, body: bytes, table: LoggedTable) -> None:
    at = 8
    if kind >= 30:
        at += int.from_bytes(body[at : at + 2], "little")
    count = body[at]
    bits = (count + 7) // 8
    at += 1 + bits * (2 if kind in _UPDATES else 1)
    while at < len(body):
        row, at, _ = _row(body, at, table, partial=False)
        if kind in _WRITES:
            table.inserted.append(row)
            continue
        after, at, partial = _row(body, at, table, partial=kind == _PARTIAL)
        table.updated.append((row, after))
        table.partial.append(partial)


def _row(body: bytes, at: int, table: LoggedTable, *, partial: bool) -> tuple[Row, int, set[int]]:
    changed: set[int] = set()
    count = len(table.kinds)
    if partial:
        options = body[at]
        at += 1
        documents = [rank for rank, kind in enumerate(table.kinds) if kind == 245]
        if options & 1:
            flags = int.from_bytes(body[at : at + (len(documents) + 7) // 8], "little")
            at += (len(documents) + 7) // 8
            changed = {rank for place, rank in enumerate(documents) if flags >> place & 1}
    nulls = int.from_bytes(body[at : at + (count + 7) // 8], "little")
    at += (count + 7) // 8
    row: Row = []
    for rank, (kind, metadata) in enumerate(zip(table.kinds, table.metadata, strict=True)):
        if nulls >> rank & 1:
            row.append(None)
            continue
        prefix, width = _layout(kind, metadata)
        if prefix:
            width = int.from_bytes(body[at : at + prefix], "little")
        row.append(body[at + prefix : at + prefix + width])
        at += prefix + width
    return row, at, changed


def _layout(kind: int, metadata: int) -> tuple[int, int]:
    """Bytes of the length before a value, else the value's own width."""
    if kind in _WIDTHS or kind in _FRACTIONAL:
        return 0, _WIDTHS[kind] if kind in _WIDTHS else _FRACTIONAL[kind] + (metadata + 1) // 2
    if kind in {15, 141, 254}:
        return (2 if metadata > 255 else 1), 0
    if kind in _BLOBS:
        return metadata, 0
    if kind in {247, 248}:
        return 0, metadata
    if kind == 16:
        return 0, (metadata >> 8) + bool(metadata & 0xFF)
    if kind == 246:
        precision, scale = metadata & 0xFF, metadata >> 8
        whole = precision - scale
        return 0, whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]
    raise AssertionError(f"type {kind}")


def by_column(rows: list[Row]) -> dict[int, list[bytes | None]]:
    """Rows turned into columns by rank."""
    columns: dict[int, list[bytes | None]] = defaultdict(list)
    for row in rows:
        for rank, value in enumerate(row):
            columns[rank].append(value)
    return columns
