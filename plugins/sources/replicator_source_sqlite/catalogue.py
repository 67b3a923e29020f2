"""Lists and describes the tables of the database."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from replicator_sdk import Column, TableId, TableRegistry, TableSchema, TableSummary
from replicator_sdk.errors import NeedsUserError
from replicator_source_sqlite.connection import connect, quoted, translated_errors
from replicator_source_sqlite.types.mapping import standard_type

DATABASE = "main"
OWN_PREFIX = "_replicator_"


@dataclass(frozen=True, slots=True)
class Unique:
    """One uniqueness constraint: its columns and their collations; `expression` when it is over expressions."""

    columns: tuple[tuple[str, str], ...]
    expression: bool = False


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table as SQLite describes it.

    Attributes:
        schema: In standard types. A PRIMARY KEY that may hold NULL does not count as a key: SQLite allows duplicates with
            NULL in it.
        defaults: SQL of each column's default, None where there is none.
        generated: Names of the generated columns.
        rowid: The SQL name of the hidden row number; empty for WITHOUT ROWID, or when columns use all its names.
        rowid_alias: The INTEGER PRIMARY KEY column, which is the row number itself; empty when none.
        without_rowid: Whether the primary key is the storage key.
        declared_key: Columns of the PRIMARY KEY as declared.
        uniques: All uniqueness constraints, the primary key included.
    """

    schema: TableSchema
    defaults: tuple[str | None, ...]
    generated: frozenset[str]
    rowid: str
    rowid_alias: str
    without_rowid: bool
    declared_key: tuple[str, ...]
    uniques: tuple[Unique, ...]


class SqliteRegistry(TableRegistry):
    """Reads the catalogue over one connection that stays open until `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open = ExitStack()
        self._database = self._open.enter_context(connect(path, read_only=True))

    def list_tables(self) -> list[TableSummary]:
        """Ordinary tables by name; rows and bytes are not estimated, since SQLite would have to count them."""
        with translated_errors(self._path):
            return [TableSummary(TableId(DATABASE, name), columns) for name, columns in ordinary_tables(self._database)]

    def describe_table(self, table: TableId) -> TableSchema:
        """The table's schema now."""
        with translated_errors(self._path):
            return describe(self._database, table).schema

    def close(self) -> None:
        """Close the connection."""
        self._open.close()


def ordinary_tables(database: sqlite3.Connection) -> list[tuple[str, int]]:
    """Name and number of columns of every ordinary table: no views, virtual or internal tables."""
    rows = database.execute(
        "SELECT name, ncol FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    )
    return [(n, count) for n, count in rows if not n.lower().startswith(("sqlite_", OWN_PREFIX))]


def is_ordinary(database: sqlite3.Connection, table: str) -> bool:
    """Whether `ordinary_tables` lists a table of exactly this name."""
    query = "SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = ?"
    found = database.execute(query, (table,)).fetchone()
    return found is not None and not table.lower().startswith(("sqlite_", OWN_PREFIX))


def describe(database: sqlite3.Connection, table: TableId) -> TableShape:
    """One table as it is now.

    Raises:
        NeedsUserError: RPL-3505 when the table does not exist.
    """
    name = table.table
    found = database.execute(
        "SELECT name, wr, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = ?", (name,)
    ).fetchone()
    if found is None or table.database != DATABASE or table.schema or found[0].lower().startswith(OWN_PREFIX):
        raise NeedsUserError(
            "there is no such table",
            code="RPL-3505",
            hint=f"list the tables with `replicator tables`; a SQLite table's database is {DATABASE!r}",
            table=str(table),
        )
    rows = database.execute(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?, 'main')", (name,)
    ).fetchall()
    rows = [row for row in rows if row[5] != 1]
    key = tuple(row[0] for row in sorted((r for r in rows if r[4]), key=lambda r: r[4]))
    alias = _rowid_alias(database, name, rows, key, without_rowid=bool(found[1]))
    never_null = {row[0] for row in rows if row[2]} | {alias} | (set(key) if found[1] or found[2] else set())
    columns = tuple(Column(r[0], standard_type(r[1]), r[0] not in never_null, r[1]) for r in rows)
    taken = {row[0].lower() for row in rows}
    rowid = "" if found[1] else next((n for n in ("rowid", "_rowid_", "oid") if n not in taken), alias)
    return TableShape(
        TableSchema(TableId(DATABASE, found[0]), columns, key if set(key) <= never_null else ()),
        tuple(row[3] for row in rows),
        frozenset(row[0] for row in rows if row[5]),
        quoted(rowid) if rowid else "",
        alias,
        bool(found[1]),
        key,
        _uniques(database, name, alias),
    )


def _rowid_alias(
    database: sqlite3.Connection,
    table: str,
    rows: list[tuple[str, str, int, str, int, int]],
    key: tuple[str, ...],
    *,
    without_rowid: bool,
) -> str:
    """The one key column that is the row number: declared exactly INTEGER and without an index of its own."""
    if without_rowid or len(key) != 1 or next(r[1] for r in rows if r[0] == key[0]).upper() != "INTEGER":
        return ""
    indexed = database.execute("SELECT 1 FROM pragma_index_list(?, 'main') WHERE origin = 'pk'", (table,)).fetchone()
    return "" if indexed else key[0]


def _uniques(database: sqlite3.Connection, table: str, alias: str) -> tuple[Unique, ...]:
    found = [Unique(((alias, "BINARY"),))] if alias else []
    indexes = database.execute("SELECT name FROM pragma_index_list(?, 'main') WHERE \"unique\"", (table,)).fetchall()
    for (index,) in indexes:
        parts = database.execute(
            "SELECT name, coll, cid FROM pragma_index_xinfo(?, 'main') WHERE \"key\" ORDER BY seqno", (index,)
        ).fetchall()
        found.append(Unique(tuple((n, coll) for n, coll, _ in parts), any(cid == -2 for _, _, cid in parts)))
    return tuple(found)
