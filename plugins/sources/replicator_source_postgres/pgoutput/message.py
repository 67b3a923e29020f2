"""Parses the rare messages of pgoutput one by one: relations, types, truncates, origins.

Row messages are frequent and are parsed by columns in `tuples`; nothing here runs per row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from replicator_sdk.errors import BugError


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as the log announces it.

    Attributes:
        name: Its name when the change was made.
        type_oid: Its type, not resolved: a domain stays a domain.
        typmod: Its type modifier, -1 when there is none.
        is_key: Whether it belongs to the replica identity.
    """

    name: str
    type_oid: int
    typmod: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the log announces it, before its first change and after every change of its structure.

    Attributes:
        oid: The table's object identifier.
        schema: Its schema; `pg_catalog` where the message has none.
        table: Its name.
        identity: Replica identity: `d` default, `n` nothing, `f` full, `i` index.
        columns: The published columns in attribute order, without dropped ones.
    """

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class _Cursor:
    """Reads big-endian fields one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(">" + layout, self._data, self._at)
        self._at += struct.calcsize(">" + layout)
        return values

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        value = self._data[self._at : end].decode()
        self._at = end + 1
        return value

    def finish(self, kind: str) -> None:
        if self._at != len(self._data):
            raise BugError(
                f"a pgoutput message {kind!r} has {len(self._data) - self._at} bytes more than its layout",
                code="RPL-3001",
                hint="report it with the server's version; the log was not read past this message",
            )


def parse_relation(payload: bytes) -> Relation:
    """A Relation message (`R`)."""
    cursor = _Cursor(payload)
    _, oid = cursor.take("BI")
    schema, table = cursor.text() or "pg_catalog", cursor.text()
    identity, count = cursor.take("BH")
    columns = []
    for _ in range(count):
        (flags,) = cursor.take("B")
        name = cursor.text()
        type_oid, typmod = cursor.take("Ii")
        columns.append(RelationColumn(name, type_oid, typmod, bool(flags & 1)))
    cursor.finish("R")
    return Relation(oid, schema, table, chr(identity), tuple(columns))


def parse_truncate(payload: bytes) -> tuple[tuple[int, ...], bool, bool]:
    """A Truncate message (`T`): the relations truncated, whether CASCADE, whether RESTART IDENTITY."""
    cursor = _Cursor(payload)
    _, count, options = cursor.take("BIB")
    relations = cursor.take(f"{count}I")
    cursor.finish("T")
    return relations, bool(options & 1), bool(options & 2)


def check_type(payload: bytes) -> None:
    """A Type message (`Y`): its layout is checked; the type itself is read from the catalogue."""
    cursor = _Cursor(payload)
    cursor.take("BI")
    cursor.text()
    cursor.text()
    cursor.finish("Y")


def check_origin(payload: bytes) -> None:
    """An Origin message (`O`): the transaction came from another node; its changes are replicated like any others."""
    cursor = _Cursor(payload)
    cursor.take("BQ")
    cursor.text()
    cursor.finish("O")
