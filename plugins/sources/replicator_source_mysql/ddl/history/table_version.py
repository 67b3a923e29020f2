"""What is known of a table at one log position, kept in its stored form until it is first used."""

from __future__ import annotations

import json
from typing import Any

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.apply.known_tables import Entry, KnownTable, UnknownTable
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition, UniqueKey

_EXPRESSION, _GENERATED, _INVISIBLE, _NOT_NULL, _NUMBERED = 1, 2, 4, 8, 16


class TableVersion:
    """One entry of one table, decoded at most once. Its text holds no table's name, so that equal tables share it.

    Args:
        table: The table.
        entry: What is known, or its text.
    """

    __slots__ = ("_entry", "_text", "table")

    def __init__(self, table: TableId, entry: Entry | str) -> None:
        self.table = table
        self._entry = None if isinstance(entry, str) else entry
        self._text = entry if isinstance(entry, str) else None

    @property
    def entry(self) -> Entry:
        """What is known."""
        if self._entry is None:
            assert self._text is not None
            self._entry = _read(self._text, self.table)
        return self._entry

    @property
    def text(self) -> str:
        """The same as one line of JSON."""
        if self._text is None:
            assert self._entry is not None
            self._text = _written(self._entry)
        return self._text


def _written(entry: Entry) -> str:
    if isinstance(entry, UnknownTable):
        stored: dict[str, Any] = {"unknown": entry.reason, "head": entry.head}
    else:
        definition = entry.definition
        stored = {"c": [_column(column) for column in definition.columns]}
        lists = {"k": _keys(definition.keys), "i": _keys(entry.indexes), "p": entry.partial, "s": definition.charset}
        stored |= {name: value for name, value in lists.items() if value}
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))


def _column(column: ColumnDefinition) -> list[Any]:
    """Name and type, then flags, character set and default as far as there are any."""
    flags = _EXPRESSION * column.has_expression_default + _GENERATED * column.is_generated
    flags += _INVISIBLE * column.is_invisible + _NOT_NULL * (not column.nullable)
    flags += _NUMBERED * column.is_auto_increment
    parts: list[Any] = [column.name, column.type, flags, column.charset, column.default]
    while len(parts) > 2 and parts[-1] in {None, "", 0} and (parts[-1] != "" or len(parts) < 5):
        parts.pop()
    return parts


def _keys(keys: tuple[UniqueKey, ...]) -> list[list[Any]]:
    return [[key.name, *key.columns] for key in keys]


def _read(text: str, table: TableId) -> Entry:
    stored = json.loads(text)
    if "unknown" in stored:
        return UnknownTable(stored["unknown"], stored["head"])
    columns = tuple(_read_column(*parts) for parts in stored["c"])
    definition = TableDefinition(table, columns, _read_keys(stored.get("k", [])), stored.get("s", ""))
    return KnownTable(definition, _read_keys(stored.get("i", [])), tuple(stored.get("p", [])))


def _read_column(
    name: str, kind: str, flags: int = 0, charset: str = "", default: str | None = None
) -> ColumnDefinition:
    return ColumnDefinition(
        name,
        kind,
        not flags & _NOT_NULL,
        charset,
        default,
        bool(flags & _EXPRESSION),
        bool(flags & _GENERATED),
        bool(flags & _INVISIBLE),
        bool(flags & _NUMBERED),
    )


def _read_keys(stored: list[list[str]]) -> tuple[UniqueKey, ...]:
    return tuple(UniqueKey(name, tuple(columns)) for name, *columns in stored)
