"""A MySQL or MariaDB database for the conformance kit, and an independent reader of it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal as Number
from typing import Any, ClassVar

import pymysql

from replicator_sdk import TableId, TableSchema
from replicator_sdk.datatype import BINARY, BOOL, INSTANT, DataType, Decimal
from replicator_sdk.schema import Column
from replicator_sdk.testing.dialect import SqlDialect
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.source_suite import SourceSystem
from tests.plugins.sources.mysql.pump import source_of
from tests.services.mysql.client import rows
from tests.services.mysql.server import MysqlDatabase


class MySqlDialect(SqlDialect):
    """How MySQL and MariaDB spell things."""

    types: ClassVar[Mapping[str, str]] = {
        **SqlDialect.types,
        "bool": "bit(1)",
        "int8": "tinyint",
        "float32": "float",
        "float64": "double",
        "string": "longtext",
        "binary": "longblob",
        "timestamp": "datetime(6)",
        "instant": "timestamp(6)",
    }

    def quote(self, name: str) -> str:
        """Names in backticks."""
        return "`" + name.replace("`", "``") + "`"

    def table(self, table: TableId) -> str:
        """With the database before it."""
        return f"{self.quote(table.database)}.{self.quote(table.table)}"

    def text(self, value: str) -> str:
        """The session says NO_BACKSLASH_ESCAPES."""
        return "'" + value.replace("'", "''") + "'"

    def literal(self, kind: DataType, value: Any) -> str:
        """A point in time is written without its zone, which is the session's."""
        if kind == INSTANT and value is not None:
            return self.text(value.replace(tzinfo=None).isoformat(sep=" "))
        return super().literal(kind, value)

    def column(self, column: Column) -> str:
        """A TIMESTAMP allows NULL only when it says so; text in a key needs a length."""
        text = super().column(column)
        return text if not column.nullable else f"{text} NULL"

    def create_table(self, schema: TableSchema) -> str:
        """Text and bytes in a key have a length, so that the whole value is in it."""
        statement = super().create_table(schema)
        for name in schema.primary_key:
            for long, short in (("longtext", "varchar(200)"), ("longblob", "varbinary(200)")):
                statement = statement.replace(f"{self.quote(name)} {long}", f"{self.quote(name)} {short}")
        return statement

    def statements(self, step: Step, schema: TableSchema) -> list[str]:
        """A default of text or bytes must be an expression."""
        if step.kind == "add_column" and step.facts.get("default") is not None:
            (statement,) = super().statements(step, schema)
            return [statement.replace("longtext", "varchar(200)").replace("longblob", "varbinary(200)")]
        return super().statements(step, schema)

    def renames(self, table: str, names: Mapping[str, str]) -> list[str]:
        """One statement for all of them."""
        clauses = [f"RENAME COLUMN {self.quote(old)} TO {self.quote(new)}" for old, new in names.items()]
        return [f"ALTER TABLE {table} {', '.join(clauses)}"]

    def retype(self, table: str, column: Column) -> str:
        """With the column's whole definition."""
        return f"ALTER TABLE {table} MODIFY COLUMN {self.column(column)}"

    def change_key(self, schema: TableSchema, key: Sequence[str]) -> list[str]:
        """In one statement, since each is a transaction of its own."""
        listed = ", ".join(map(self.quote, key))
        return [f"ALTER TABLE {self.table(schema.table)} DROP PRIMARY KEY, ADD PRIMARY KEY ({listed})"]

    def _where(self, step: Step, schema: TableSchema) -> str:
        if "limit" not in step.facts:
            return super()._where(step, schema)
        plain = Step(step.kind, step.table, {k: v for k, v in step.facts.items() if k != "limit"})
        return f"{super()._where(plain, schema)} LIMIT {step.facts['limit']}"


class MySqlSystem(SourceSystem):
    """One database of a server."""

    def __init__(self, database: MysqlDatabase, **settings: Any) -> None:
        self.dialect = MySqlDialect()
        self.source = source_of(database, **settings)
        self._database = database
        self._connection = database.connect()
        self._run("SET time_zone = '+00:00'")
        self._run("SET sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'")

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        """Make a table in the test's database."""
        table = TableId(self._database.name, name)
        self._run(
            self.dialect.create_table(TableSchema(table, schema.columns, schema.primary_key)) + " COLLATE utf8mb4_bin"
        )
        return table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        """One transaction, but that every change of structure ends the one before it."""
        self._connection.begin()
        for step, schema in steps:
            for statement in self.dialect.statements(step, schema):
                self._run(statement)
        self._connection.commit()

    def read_table(self, schema: TableSchema) -> list[Row]:
        """Rows by MySQL's own connector."""
        columns = ", ".join(
            self.dialect.quote(c.name) + ("+0e0" if c.type.name == "float32" else "") for c in schema.columns
        )
        found = rows(self._database, f"SELECT {columns} FROM {self.dialect.table(schema.table)}")
        kinds = {c.name: c.type for c in schema.columns}
        return [
            {name: _standard(kinds[name], value) for name, value in zip(schema.names, row, strict=True)}
            for row in found
        ]

    def rename_tables(self, renames: Mapping[TableId, TableId]) -> None:
        """One statement; each table has a name of its own in between."""
        name = self.dialect.table
        between = {former: TableId(former.database, f"between_{n}") for n, former in enumerate(renames)}
        moves = [*between.items(), *((between[former], table) for former, table in renames.items())]
        self._run(f"RENAME TABLE {', '.join(f'{name(former)} TO {name(table)}' for former, table in moves)}")

    def rest(self) -> None:
        """Change nothing but the log's file, which gives the source an offset between two transactions."""
        self._run("FLUSH BINARY LOGS")
        time.sleep(0.3)

    def lose_history(self) -> None:
        """Purge the binlog, as an administrator who needs disk space would; a file that is being sent stays."""
        self._run("FLUSH BINARY LOGS")
        last = self._rows("SHOW BINARY LOGS")[-1][0]
        while self._rows("SHOW BINARY LOGS")[0][0] != last:
            for session, command in self._rows("SELECT ID, COMMAND FROM information_schema.PROCESSLIST"):
                if str(command).startswith("Binlog Dump"):
                    with contextlib.suppress(pymysql.MySQLError):
                        self._run(f"KILL {session}")
            self._run(f"PURGE BINARY LOGS TO '{last}'")

    def close(self) -> None:
        """Close the application's connection."""
        self._connection.close()

    def _run(self, statement: str) -> None:
        self._rows(statement)

    def _rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


def _standard(kind: DataType, value: Any) -> Any:
    """The connector's Python value as the standard type has it."""
    if value is None:
        return None
    if isinstance(value, datetime) and kind == INSTANT:
        return value.replace(tzinfo=UTC)
    if isinstance(kind, Decimal):
        return Number(value)
    if kind.name == "json" and not isinstance(value, (str, bytes, bytearray)):
        return json.dumps(value)
    if kind in {BOOL, BINARY}:
        return bool(value) if kind == BOOL else bytes(value)
    return value.decode() if isinstance(value, (bytes, bytearray)) else value
