"""The tables that a reader was given, by the names that they have where the reader is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_sdk import AlterKind
from replicator_sdk.authoring.schema_diff import alter_steps

if TYPE_CHECKING:
    from replicator_sdk import Alter, EventReaderDefinition, TableId, TableSchema
    from replicator_source_archive.manifests import Entry


class CapturedTables:
    """Follows the tables to their new names, and their columns. Used by the reader's thread.

    Args:
        definition: The reader's.

    Attributes:
        waiting: Tables whose changes are of no use until the archive has a copy of them.
    """

    def __init__(self, definition: EventReaderDefinition) -> None:
        self._schemas = dict(definition.tables)
        self._names = {table: schema.names for table, schema in definition.tables.items()}
        self._narrowed, self._stopped = set(definition.narrowed), set(definition.stopped)
        self.waiting: set[TableId] = set()

    def __contains__(self, table: TableId) -> bool:
        """Whether changes of the table are wanted."""
        return table in self._schemas and table not in self._stopped

    def selected(self, table: TableId, schema: TableSchema) -> TableSchema:
        """The columns that are wanted."""
        if table not in self._narrowed:
            return schema
        return schema.select([name for name in self._names[table] if name in schema])

    def learn(self, table: TableId, schema: TableSchema) -> None:
        """The table has these columns now, all of them wanted."""
        self._schemas[table] = schema

    def note_schema(self, table: TableId, entry: Entry) -> None:
        """The table has the columns of the entry, if it says any."""
        if (schema := entry.schema) is not None:
            self._schemas[table] = self.selected(table, schema)

    def rename(self, entry: Entry) -> dict[TableId, TableSchema]:
        """Follow the tables that an entry renames, all at once; returns those that are wanted, by their former names."""
        renames = entry.renames
        wanted = {former: schema for former, schema in renames.items() if former in self}
        tables: list[dict[TableId, object]] = [self._schemas, self._names]  # type: ignore[list-item]
        for known in tables:
            moved = {schema.table: known.pop(former) for former, schema in renames.items() if former in known}
            known.update(moved)
        for marked in (self._narrowed, self._stopped, self.waiting):
            found = {schema.table for former, schema in renames.items() if former in marked}
            marked.difference_update(renames)
            marked.update(found)
        for schema in renames.values():
            if schema.table in self._schemas:
                self._schemas[schema.table] = self.selected(schema.table, schema)
        return {former: self._schemas[schema.table] for former, schema in wanted.items()}

    def steps_after_copy(self, table: TableId, schema: TableSchema) -> tuple[Alter, ...]:
        """The steps from the columns of before to those of a copy."""
        known = self._schemas[table]
        steps = alter_steps(known, schema, {name: name for name in schema.names if name in known})
        self._schemas[table] = schema
        return steps

    def narrowed_steps(
        self, table: TableId, schema: TableSchema, alters: tuple[Alter, ...]
    ) -> tuple[TableSchema, tuple[Alter, ...]] | None:
        """A change of structure as the wanted columns show it, which keep being wanted under their new names; None where all are wanted."""
        if table not in self._narrowed:
            return None
        former = {name: name for name in self._names[table]}
        for step in alters:
            if step.kind is AlterKind.RENAME_COLUMN and step.previous is not None and step.column is not None:
                former = {step.column.name if new == step.previous.name else new: old for new, old in former.items()}
        self._names[table] = tuple(former)
        selected = self.selected(table, schema)
        return selected, alter_steps(self._schemas[table], selected, former)
