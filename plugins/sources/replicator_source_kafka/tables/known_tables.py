"""The schemas of the topics' tables: those the reader was given, and those it has found in records since.

Every replay has to emit the same schema changes, although records in which they were found may be deleted by then. So a schema
that is found is saved with the end offset of its window before anything of the window is emitted. After a return to an older
offset the window's saved schemas are taken before its records are looked at.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, DDLOperation
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.tables.schema_evolution import reconcile

_KEY: Final = "known-tables"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One schema change, found in records.

    Attributes:
        operation: CREATE_TABLE or ALTER_TABLE.
        schema: The table's schema after it.
        place: Its place among the schemas found in its window, the same at every replay.
        alters: The steps of an ALTER_TABLE.
    """

    operation: DDLOperation
    schema: TableSchema
    place: int
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
        self._later: list[tuple[KafkaOffset, TableSchema]] = []
        """Schemas that an earlier run found in windows after the current position."""
        self._window: list[TableSchema] = []
        """Those of the current window, in the order in which they were found."""
        self._most = 0
        """How many it may have."""
        self._saved = 0
        """How many of these are saved."""

    def resume(self, offset: KafkaOffset) -> None:
        """Restore the schemas that were known at `offset`."""
        stored = self._context.get_state(_KEY)
        entries = json.loads(zlib.decompress(stored)) if stored else []
        found = [(KafkaOffset.from_json(at), TableSchema.from_json(schema)) for at, schema in entries]
        self._found = [(at, schema) for at, schema in found if not offset < at]
        self._later = [(at, schema) for at, schema in found if offset < at]
        known = {schema.table: schema for _, schema in self._found}
        self._schemas = {**known, **self._definition.tables}
        self._left_out = known.keys() - self._definition.tables.keys()
        given = [(offset, s) for s in self._definition.tables.values() if known.get(s.table) != s]
        if given:
            self._found += given
            self._store()

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

    def begin_window(self, end: KafkaOffset, most: int) -> list[SchemaChange]:
        """Begin the window that ends at `end`; returns the schema changes to emit that an earlier run found in it.

        Args:
            end: The end.
            most: How many schema changes the window has numbers for.

        Raises:
            SchemaDriftError: When one does not fit the schema that its table has by now, for a table that it concerns.
        """
        self._window = [schema for at, schema in self._later if at == end]
        self._saved, self._most = len(self._window), most
        changes = [self._follow(schema, place) for place, schema in enumerate(self._window)]
        return [change for change in changes if change is not None and self._is_emitted(change)]

    def seen(self, schema: TableSchema) -> list[SchemaChange]:
        """Add a schema found in records of the current window; returns the schema changes to emit, one at most.

        Raises:
            SchemaDriftError: When the change is not supported, for a table that it concerns.
            NeedsUserError: RPL-3923 when the window has no number for it: `routes` were edited since the window was planned.
        """
        change = self._follow(schema, len(self._window))
        if change is None:
            return []
        if len(self._window) >= self._most:  # and it is not saved
            raise NeedsUserError(
                "routes name more tables than when reading of these records began, and too many of them change at once",
                code="RPL-3923",
                table=str(schema.table),
                hint="put the former routes back until a run has read on, then edit them again",
            )
        self._window.append(change.schema)
        return [change] if self._is_emitted(change) else []

    def _follow(self, schema: TableSchema, place: int) -> SchemaChange | None:
        """Make a table's schema fit records with `schema`; None where that changes nothing."""
        known = self._schemas.get(schema.table)
        if known is None:
            self._schemas[schema.table] = schema
            return SchemaChange(DDLOperation.CREATE_TABLE, schema, place)
        if schema.table in self._definition.narrowed:
            schema = schema.select(name for name in schema.names if name in known)
        try:
            fit = reconcile(known, schema)
        except SchemaDriftError:
            if self.concerns(schema.table):
                raise
            return None
        if fit.schema == known:
            return None
        self._schemas[schema.table] = fit.schema
        return SchemaChange(DDLOperation.ALTER_TABLE, fit.schema, place, tuple(fit.alters))

    def _is_emitted(self, change: SchemaChange) -> bool:
        return change.operation is DDLOperation.CREATE_TABLE or change.schema.table not in self._silent

    def save(self, end: KafkaOffset) -> None:
        """Save the schemas found in the window that ends at `end`; durable on return."""
        is_saved = self._saved == len(self._window)
        self._found += [(end, schema) for schema in self._window]
        self._later = [(at, schema) for at, schema in self._later if end < at]
        self._window, self._saved = [], 0
        if not is_saved:
            self._store()

    def _store(self) -> None:
        self._found = _needed(self._found, self._context.committed_offset())
        entries = [[at.to_json(), schema.to_json()] for at, schema in [*self._found, *self._later]]
        self._context.put_state(_KEY, zlib.compress(json.dumps(entries, separators=(",", ":")).encode(), 1))


def _needed(
    found: Collection[tuple[KafkaOffset, TableSchema]], committed: object
) -> list[tuple[KafkaOffset, TableSchema]]:
    """The schemas a replay may need: of each table the newest at the durable offset, and all later ones."""
    if not isinstance(committed, KafkaOffset):
        return list(found)
    old = {schema.table: (at, schema) for at, schema in found if not committed < at}
    return [*old.values(), *((at, schema) for at, schema in found if committed < at)]
