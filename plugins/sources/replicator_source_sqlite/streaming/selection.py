"""The selected tables and columns, which follow schema changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from replicator_sdk import EventReaderDefinition, TableId, TableSchema
from replicator_source_sqlite.capture.versions import Version


class Selection:
    """The selected columns by table; None for all columns, new ones included.

    A version is selected by the name that its table has, when that is one that the reader was given, or as what a schema change made
    of a selected one. The names alone would not do: while tables exchange theirs, two have the same name between one logged change and
    the next. Nor would the versions alone: a replay from before a rename meets the former table under a name that a later one has, and
    it may be the later one that was copied. So more may be selected than is replicated; the runtime takes no changes of a table from
    before its copy.
    """

    def __init__(self, columns: Mapping[TableId, frozenset[str] | None]) -> None:
        self._given = dict(columns)
        self._followed: dict[int, frozenset[str] | None] = {}

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
        if version.number in self._followed:
            return _selected(version.schema, self._followed[version.number])
        if version.schema.table in self._given:
            return _selected(version.schema, self._given[version.schema.table])
        return None

    def follow(self, before: Version, after: Version, origin: Mapping[str, str]) -> None:
        """Follow a selected table and its columns to their new names."""
        names = self._followed.get(before.number, self._given.get(before.schema.table))
        if names is not None:
            names = frozenset(new for new, old in origin.items() if old in names)
        self._followed[after.number] = names


def _selected(schema: TableSchema, names: frozenset[str] | None) -> TableSchema:
    return schema if names is None else schema.select(names)
