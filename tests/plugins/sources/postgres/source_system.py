"""A Postgres database for the conformance kit, which changes it and reads it independently of the source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from replicator_sdk import TableId, TableSchema
from replicator_sdk.datatype import DataType
from replicator_sdk.testing.dialect import SqlDialect
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.source_suite import SourceSystem
from replicator_source_postgres import PostgresSource
from tests.plugins.sources.postgres.later_slot import publish_and_make_slot
from tests.plugins.sources.postgres.pump import source_of
from tests.services.postgres.server import PostgresDatabase, once_free

_DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
_OF_RANDOM_HISTORY = re.compile(r"r\d+_")


class PostgresDialect(SqlDialect):
    """How Postgres spells things."""

    row_address = "ctid"
    as_text: ClassVar[frozenset[str]] = frozenset({"json", "uuid"})

    def binary(self, value: bytes) -> str:
        """Bytes in hexadecimal."""
        return f"'\\x{value.hex()}'::bytea"

    def literal(self, kind: DataType, value: Any) -> str:
        """Floats as text, since a decimal literal is rounded on its way."""
        if isinstance(value, float):
            return f"CAST('{value!r}' AS {self.type_name(kind)})"
        return super().literal(kind, value)


class PostgresSystem(SourceSystem):
    """One database with the source's slot and publication in it."""

    def __init__(self, database: PostgresDatabase, **settings: Any) -> None:
        self.dialect = PostgresDialect()
        self.source = source_of(database, **settings)
        self._database = database
        self._name = database.name
        self._connection = database.connect()
        self._connection.execute("SET timezone = 'UTC'")

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        """Make a table in `public`; without a key it needs REPLICA IDENTITY FULL."""
        if _OF_RANDOM_HISTORY.match(name):  # each is read by a replicator of one name, with a state of its own
            self._run(f"{_DROP_SLOTS} AND NOT active")
        table = TableId(self._name, name, "public")
        self._run(self.dialect.create_table(TableSchema(table, schema.columns, schema.primary_key)))
        if not schema.primary_key:
            self._run(f"ALTER TABLE {self.dialect.table(table)} REPLICA IDENTITY FULL")
        return table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        """One transaction."""
        with self._connection.transaction():
            for step, schema in steps:
                for statement in self.dialect.statements(step, schema):
                    self._run(statement)

    def read_table(self, schema: TableSchema) -> list[Row]:
        """Rows by psycopg."""
        columns = ", ".join(
            f"{self.dialect.quote(c.name)}{'::text' if c.type.name in self.dialect.as_text else ''}"
            for c in schema.columns
        )
        found = self._connection.execute(
            f"SELECT {columns} FROM {self.dialect.table(schema.table)}".encode()
        ).fetchall()
        return [dict(zip(schema.names, row, strict=True)) for row in found]

    def later_source(self, namespace: str, name: str) -> PostgresSource:
        """Reads a publication and then a slot that are made now."""
        publish_and_make_slot(self._database, name, "FOR ALL TABLES", f"{self._name}_{name}")
        return source_of(self._database, publication=name, slot=f"{self._name}_{name}")

    def lose_history(self) -> None:
        """Drop the slot, as a database administrator in need of disk space would."""
        once_free(lambda: self._run(_DROP_SLOTS))

    def close(self) -> None:
        """Close the application's connection."""
        self._connection.close()

    def _run(self, statement: str, values: Mapping[str, Any] | None = None) -> None:
        self._connection.execute(statement.encode(), values)
