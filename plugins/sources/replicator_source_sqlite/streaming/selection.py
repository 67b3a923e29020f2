"""The selected tables and columns, which follow schema changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from replicator_sdk import EventReaderDefinition, TableId, TableSchema
from replicator_source_sqlite.capture.changelog import Version


class Selection:
    """The selected columns by table; None for all columns, new ones included."""

    def __init__(self, columns: Mapping[TableId, frozenset[str] | None]) -> None:
        self._columns = dict(columns)
        # A replay from before a rename meets the former table under a name that a later one has, and it may be the later
        # one that was copied: the names that the reader was given stay selected.
        self._given = dict(columns)
        self._displaced: dict[TableId, frozenset[str] | None] = {}

    @classmethod
    def of(cls, definition: EventReaderDefinition) -> Self:
        """What the definition selects."""
        return cls(
            {
                table: frozenset(schema.names) if table in definition.narrowed else None
                for table, schema in definition.tables.items()
            }
        )

    def schema(self, version: Version) -> TableSchema | None:
        """The selected part of a version; None when its table is not selected."""
        table = version.schema.table
        if table not in self._columns and table not in self._given:
            return None
        return _selected(version.schema, self._columns.get(table, self._given.get(table)))

    def former_schema(self, version: Version) -> TableSchema | None:
        """The same of a version that a schema change ends, also when another table has taken its name just then."""
        table = version.schema.table
        if table not in self._displaced:
            return self.schema(version)
        return _selected(version.schema, self._displaced[table])

    def follow(self, before: Version, after: Version, origin: Mapping[str, str]) -> None:
        """Follow a table and its columns to their new names. A table that has the new name still is renamed next."""
        former, table = before.schema.table, after.schema.table
        columns = self._displaced if former in self._displaced else self._columns
        names = columns.pop(former, self._given.get(former))
        if names is not None:
            names = frozenset(new for new, old in origin.items() if old in names)
        if table in self._columns:
            self._displaced[table] = self._columns[table]
        self._columns[table] = names


def _selected(schema: TableSchema, names: frozenset[str] | None) -> TableSchema:
    return schema if names is None else schema.select(names)
