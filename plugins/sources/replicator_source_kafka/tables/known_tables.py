"""The schemas of the topics' tables: those the reader was given, and those it has found in records since.

Every replay has to emit the same schema changes, also those of tables that are not selected or have stopped, since their
events have ordinals, too. So a schema that is found is saved with the end offset of its window before the window is
emitted. After a return to an older offset it is dropped, and found again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import Alter, DDLOperation
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.tables.schema_evolution import reconcile

_KEY: Final = "known-tables"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One schema change, found in records."""

    operation: DDLOperation
    schema: TableSchema
    alters: tuple[Alter, ...] = ()


class KnownTables:
    """Schemas at the current position of the reader. Used by the reader's thread.

    Args:
        definition: The selected tables, with their schemas at the offset where reading begins.
        context: State.
    """

    def __init__(self, definition: EventReaderDefinition, context: DeltaSourceContext) -> None:
        self._definition = definition
        self._context = context
        self._found: list[tuple[KafkaOffset, TableSchema]] = []
        self._schemas: dict[TableId, TableSchema] = dict(definition.tables)
        self._silent: set[TableId] = set()
        self._left_out: set[TableId] = set()
        """Tables that were known before and are not read for anyone: they have stopped, or are not selected."""
        self._unfit: set[TableId] = set()
        """Those of them whose newer records do not fit: nothing is emitted of these any more."""
        self._new: list[TableSchema] = []

    def resume(self, offset: KafkaOffset) -> None:
        """Restore the schemas that were known at `offset`."""
        stored = self._context.get_state(_KEY)
        entries = json.loads(zlib.decompress(stored)) if stored else []
        found = [(KafkaOffset.from_json(at), TableSchema.from_json(schema)) for at, schema in entries]
        self._found = [(at, schema) for at, schema in found if not offset < at]
        known = {schema.table: schema for _, schema in self._found}
        self._schemas = {**known, **self._definition.tables}
        self._left_out = known.keys() - self._definition.tables.keys()
        self._new = [s for s in self._definition.tables.values() if known.get(s.table) != s]
        self.save(offset)

    def capture(self, tables: Iterable[TableSchema]) -> None:
        """Emit nothing of tables that are not selected."""
        for schema in tables:
            if schema.table not in self._definition.tables:
                self._silent.add(schema.table)
                self._schemas.setdefault(schema.table, schema)

    @property
    def names(self) -> Collection[TableId]:
        """All known tables, including those that have stopped or are not selected."""
        return self._schemas.keys() | self._definition.stopped

    def find(self, table: TableId) -> TableSchema | None:
        """The table's schema; None if nothing is to be emitted of the table, or no row of it was found yet."""
        return None if table in self._silent or table in self._unfit else self._schemas.get(table)

    def concerns(self, table: TableId) -> bool:
        """Whether what is wrong with a table's records is an error. If not, nothing more is emitted of the table."""
        wanted = self._definition
        if table in wanted.tables:
            return True
        if table in self._left_out or table in wanted.stopped or not wanted.selects(table):
            self._unfit.add(table)
            return False
        return True

    def seen(self, schema: TableSchema) -> list[SchemaChange]:
        """Add a schema found in records; returns the schema changes to emit.

        Raises:
            SchemaDriftError: When the change is not supported, for a table that it concerns.
        """
        known = self._schemas.get(schema.table)
        if known is None:
            self._learn(schema)
            return [SchemaChange(DDLOperation.CREATE_TABLE, schema)]
        if schema.table in self._definition.narrowed:
            schema = schema.select(name for name in schema.names if name in known)
        try:
            fit = reconcile(known, schema)
        except SchemaDriftError:
            if self.concerns(schema.table):
                raise
            return []
        if fit.schema == known:
            return []
        self._learn(fit.schema)
        if schema.table in self._silent:
            return []
        return [SchemaChange(DDLOperation.ALTER_TABLE, fit.schema, tuple(fit.alters))]

    def _learn(self, schema: TableSchema) -> None:
        self._schemas[schema.table] = schema
        self._new.append(schema)

    def save(self, end: KafkaOffset) -> None:
        """Save the schemas found in the window that ends at `end`; durable on return."""
        if not self._new:
            return
        self._found += [(end, schema) for schema in self._new]
        self._new = []
        self._found = _needed(self._found, self._context.committed_offset())
        entries = [[at.to_json(), schema.to_json()] for at, schema in self._found]
        self._context.put_state(_KEY, zlib.compress(json.dumps(entries, separators=(",", ":")).encode(), 1))


def _needed(
    found: Collection[tuple[KafkaOffset, TableSchema]], committed: object
) -> list[tuple[KafkaOffset, TableSchema]]:
    """The schemas a replay may need: of each table the newest at the durable offset, and all later ones."""
    if not isinstance(committed, KafkaOffset):
        return list(found)
    old = {schema.table: (at, schema) for at, schema in found if not committed < at}
    return [*old.values(), *((at, schema) for at, schema in found if committed < at)]
