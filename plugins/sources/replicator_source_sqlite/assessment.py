"""Findings about the database and its tables before anything runs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from replicator_sdk import (
    Assessment,
    ColumnAssessment,
    Finding,
    Severity,
    Support,
    TableAssessment,
    TableAssessor,
    TableSchema,
)
from replicator_sdk.datatype import INT64, STRING, Decimal
from replicator_sdk.errors import ReplicatorError
from replicator_source_sqlite.catalogue import TableShape, describe
from replicator_source_sqlite.connection import connect

_LOOSE = "every value of the column must fit it; SQLite does not enforce that (setting outOfRange)"


class SqliteAssessor(TableAssessor):
    """Reads the database; opens a connection for each call and keeps none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def assess(self) -> Assessment:
        """Whether the file can be read and written, and what of the application's a snapshot or our triggers would block."""
        try:
            with connect(self._path, read_only=True) as database:
                return Assessment(tuple(self._findings(database)))
        except ReplicatorError as error:
            finding = Finding(
                "connection", Severity.ERROR, error.message, "nothing can be read", error.hint, code=error.code
            )
            return Assessment((finding,))

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """The table's key, its indexes and how each column is transferred."""
        try:
            with connect(self._path, read_only=True) as database:
                shape = describe(database, schema.table)
        except ReplicatorError as error:
            finding = Finding(
                "table",
                Severity.ERROR,
                error.message,
                "the table cannot be read",
                error.hint,
                table=schema.table,
                code=error.code,
            )
            return TableAssessment(schema.table, (), (finding,))
        columns = tuple(
            ColumnAssessment(c.name, c.source_type, str(c.type), *_support(c.type == STRING, c.type, c.source_type))
            for c in shape.schema.columns
            if c.name in schema
        )
        return TableAssessment(schema.table, columns, tuple(_table_findings(shape)))

    def _findings(self, database: sqlite3.Connection) -> Iterator[Finding]:
        (mode,) = database.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            yield Finding(
                "journal_mode",
                Severity.WARNING,
                f"the journal mode is {mode}",
                "the application's commits wait while a table is copied for its snapshot",
                "switch to the write-ahead log once; the setting stays in the file",
                fix="PRAGMA journal_mode = WAL;",
            )
        if not os.access(self._path, os.W_OK) or not os.access(self._path.parent, os.W_OK):
            yield Finding(
                "write_access",
                Severity.ERROR,
                f"{self._path} or its folder cannot be written by this user",
                "changes cannot be captured: triggers and the changelog are stored in the database itself",
                "give the user write access to the file and its folder",
                code="RPL-3502",
            )
        yield Finding(
            "drop_column",
            Severity.INFO,
            "the replicator's triggers name the columns of each selected table",
            "an application's ALTER TABLE ... DROP COLUMN fails while they are there",
            'drop the table\'s triggers in the same transaction, as docs/source-sqlite.md says under "Drop a column"; they are created again',
        )


def _support(is_text: bool, kind: object, declared: str) -> tuple[Support, str]:
    if is_text and not any(part in declared.upper() for part in ("CHAR", "CLOB", "TEXT")):
        return Support.PARTIAL, "numbers arrive as their text"
    if isinstance(kind, Decimal):
        return Support.YES, "SQLite keeps fractions as binary floating point: 15 digits are exact"
    return Support.YES, "" if kind in (INT64, STRING) else _LOOSE


def _table_findings(shape: TableShape) -> Iterator[Finding]:
    table = shape.schema.table
    if any(unique.expression for unique in shape.uniques):
        yield Finding(
            "unique_expression",
            Severity.ERROR,
            "a UNIQUE index is over an expression",
            "INSERT OR REPLACE could delete rows that no trigger sees; the table is refused",
            "make the expression a generated column and index that",
            table=table,
            code="RPL-3508",
        )
    if not shape.schema.primary_key:
        nullable = f" ({', '.join(shape.declared_key)} may hold NULL)" if shape.declared_key else ""
        yield Finding(
            "no_key",
            Severity.WARNING,
            f"the table has no key that identifies a row{nullable}",
            "rows are compared whole, which is slower, and an interrupted snapshot starts from scratch",
            "declare the key's columns NOT NULL, or use INTEGER PRIMARY KEY",
            table=table,
        )
