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
        if table not in self._columns:
            return None
        names = self._columns[table]
        return version.schema if names is None else version.schema.select(names)

    def follow(self, before: Version, after: Version, origin: Mapping[str, str]) -> None:
        """Follow a table and its columns to their new names."""
        names = self._columns[before.schema.table]
        if before.schema.table != after.schema.table:
            del self._columns[before.schema.table]
        if names is not None:
            names = frozenset(new for new, old in origin.items() if old in names)
        self._columns[after.schema.table] = names
