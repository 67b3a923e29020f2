"""A SQLite database for the conformance kit, which changes it and reads it independently of the source."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal as Number
from pathlib import Path
from typing import Any, ClassVar

from replicator_sdk import TableId, TableSchema
from replicator_sdk.datatype import DataType, Decimal
from replicator_sdk.testing.dialect import SqlDialect
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.source_suite import SourceSystem
from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.capture.pruning import prune
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.connection import connect
from replicator_source_sqlite.plugin import SqliteSource


class SqliteDialect(SqlDialect):
    """How SQLite spells things."""

    types: ClassVar[Mapping[str, str]] = {
        "bool": "BOOLEAN",
        "int8": "INT",
        "int16": "INT",
        "int32": "INT",
        "int64": "INTEGER",
        "float32": "REAL",
        "float64": "REAL",
        "string": "TEXT",
        "binary": "BLOB",
        "date": "DATE",
        "time": "TIME",
        "timestamp": "TIMESTAMP",
        "json": "JSON",
        "uuid": "UUID",
    }
    row_address = "rowid"

    def literal(self, kind: DataType, value: Any) -> str:
        """A double through a function, since old versions of SQLite read some decimal texts a bit wrong."""
        return f"exactly('{value.hex()}')" if isinstance(value, float) else super().literal(kind, value)

    def statements(self, step: Step, schema: TableSchema) -> list[str]:
        """No TRUNCATE here."""
        if step.kind == "truncate":
            return [f"DELETE FROM {self.table(schema.table)}"]
        return super().statements(step, schema)


_READ: Mapping[str, Any] = {
    "bool": bool,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
}


class SqliteSystem(SourceSystem):
    """One database file, in WAL mode as an application would have it."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.database = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = OFF")
        self.database.create_function("exactly", 1, float.fromhex)
        self.dialect = SqliteDialect()
        self.source = SqliteSource(SqliteConfig(path=path, poll_interval_seconds=0.01, **settings))

    def forget_owners(self) -> None:
        """Let a replicator of any name begin with a new state, as the deletion of the one before would."""
        if self.database.execute("SELECT 1 FROM sqlite_schema WHERE name = '_replicator_facts'").fetchone():
            self.database.execute("DELETE FROM _replicator_facts WHERE name GLOB 'owner *'")

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        """Make a table in `main`, for a replicator with a new state."""
        self.forget_owners()
        table = TableId("main", name)
        self.database.execute(self.dialect.create_table(TableSchema(table, schema.columns, schema.primary_key)))
        return table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        """One transaction; triggers are dropped before a column is, as the README says."""
        self.database.execute("BEGIN IMMEDIATE")
        for step, schema in steps:
            if step.kind == "drop_column":
                self.drop_triggers(schema.table.table)
            for statement in self.dialect.statements(step, schema):
                self.database.execute(statement)
        self.database.execute("COMMIT")

    def rename_tables(self, renames: Mapping[TableId, TableId]) -> None:
        """One transaction; each table has a name of its own in between."""
        self.database.execute("BEGIN IMMEDIATE")
        for number, former in enumerate(renames):
            self.database.execute(f"ALTER TABLE {self.dialect.table(former)} RENAME TO between_{number}")
        for number, table in enumerate(renames.values()):
            self.database.execute(f"ALTER TABLE between_{number} RENAME TO {self.dialect.quote(table.table)}")
        self.database.execute("COMMIT")

    def drop_triggers(self, table: str) -> None:
        """Take the source's triggers from a table."""
        names = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? AND name GLOB '_replicator_*'"
        for (name,) in self.database.execute(names, (table,)).fetchall():
            self.database.execute(f"DROP TRIGGER {name}")

    def read_table(self, schema: TableSchema) -> list[Row]:
        """Rows by Python's own sqlite3."""
        columns = ", ".join(self.dialect.quote(c.name) for c in schema.columns)
        rows = self.database.execute(f"SELECT {columns} FROM {self.dialect.table(schema.table)}")
        return [{c.name: _value(c.type, v) for c, v in zip(schema.columns, row, strict=True)} for row in rows]

    def rest(self) -> None:
        """The source emits no offset by itself."""

    def lose_history(self) -> None:
        """As if every reader had gone on and the log had been pruned."""
        with connect(self.path) as database:
            database.execute("UPDATE _replicator_readers SET change = ?", (last_change(database),))
            while prune(database, 1000):
                pass

    def close(self) -> None:
        """Close the application's connection."""
        self.database.close()


def _value(kind: DataType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, Decimal):
        return Number(f"{value:.15g}" if isinstance(value, float) else value)
    return _READ.get(kind.name, lambda v: v)(value)
