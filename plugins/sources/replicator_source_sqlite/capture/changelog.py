"""The changelog inside the source: its tables, and how much of it is kept.

`_replicator_changes` holds one row per change, numbered without reuse: which version of which table, what happened, when,
and the values as SQLite stores them (columns without a type do not convert): after the change in `c0`, `c1`, …, before it
in as many columns after those. `_replicator_tables` lists the columns of each version.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from dataclasses import dataclass

from replicator_sdk import TableSchema
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_source_sqlite.capture.triggers import create_triggers
from replicator_source_sqlite.catalogue import TableShape
from replicator_source_sqlite.connection import transaction
from replicator_source_sqlite.offset import SqliteOffset

DDL = 0
"""The `op` of a row that records a schema change; the others are the codes of `DMLOperation`."""

COPY_AGAIN = "have every table copied again: `replicator reset PIPELINE`"
HEAL = "write what changed meanwhile, by comparing each table: `replicator heal PIPELINE`; or have every table copied again: `replicator reset PIPELINE`"

_TABLES = (
    """CREATE TABLE IF NOT EXISTS _replicator_changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER NOT NULL, op INTEGER NOT NULL, at INTEGER NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS _replicator_replaced (version INTEGER NOT NULL, row_number INTEGER)",
    """CREATE TABLE IF NOT EXISTS _replicator_tables (
        version INTEGER PRIMARY KEY, table_schema TEXT NOT NULL, since INTEGER NOT NULL, live INTEGER NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS _replicator_readers (name TEXT PRIMARY KEY NOT NULL, change INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS _replicator_facts (name TEXT PRIMARY KEY NOT NULL, value NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one captured table.

    Attributes:
        number: Its number, unique over all tables.
        schema: All columns of the table, in order.
        since: It holds for changes after this one.
        live: Whether its triggers should be in place.
    """

    number: int
    schema: TableSchema
    since: int
    live: bool


def install(database: sqlite3.Connection) -> str:
    """Create those of the replicator's own tables that do not exist.

    Returns:
        The database's lasting identity, given to it by the first call.
    """
    known = identity(database)
    if known:
        return known
    with transaction(database, write=True):
        for statement in _TABLES:
            database.execute(statement)
        database.execute("INSERT OR IGNORE INTO _replicator_facts VALUES ('identity', ?)", (str(uuid.uuid4()),))
        database.execute("INSERT OR IGNORE INTO _replicator_facts VALUES ('pruned', 0)")
    return identity(database)


def identity(database: sqlite3.Connection) -> str:
    """The identity that `install` gave to the database; empty when it was never called."""
    installed = database.execute("SELECT 1 FROM sqlite_schema WHERE name = '_replicator_facts'").fetchone()
    return str(_fact(database, "identity")) if installed else ""


def last_change(database: sqlite3.Connection) -> int:
    """The number of the last committed change; stays when the changelog is pruned."""
    row = database.execute("SELECT seq FROM sqlite_sequence WHERE name = '_replicator_changes'").fetchone()
    return int(row[0]) if row else 0


def offset_of(database: sqlite3.Connection, change: int) -> SqliteOffset:
    """The offset after `change`, with its time while the changelog still has it."""
    row = database.execute("SELECT at FROM _replicator_changes WHERE id = ?", (change,)).fetchone()
    return SqliteOffset(change, int(row[0]) if row else 0)


def check_reach(database: sqlite3.Connection, offset: SqliteOffset) -> None:
    """Check that `offset` belongs to this changelog, and that every change after it is in it.

    Raises:
        HistoryLostError: RPL-3506 when some were pruned, RPL-3507 when the log ends before the offset or has another
            change there.
    """
    if not identity(database) or last_change(database) < offset.change:
        raise HistoryLostError(
            "the changelog ends before the saved offset: the database was replaced or restored from a copy",
            code="RPL-3507",
            hint=COPY_AGAIN,
            position=str(offset),
        )
    logged = offset_of(database, offset.change)
    if offset.at and logged.at and logged.at != offset.at:
        raise HistoryLostError(
            "the changelog has another change at the saved offset: the database was restored from a copy and written since",
            code="RPL-3507",
            hint=COPY_AGAIN,
            position=str(offset),
        )
    if int(_fact(database, "pruned")) > offset.change:
        raise HistoryLostError(
            "changes after the saved offset were removed from the changelog",
            code="RPL-3506",
            hint=HEAL + "; do not change _replicator_readers while a replicator does not run",
            position=str(offset),
        )


def versions(database: sqlite3.Connection, *, containing: str = "") -> dict[int, Version]:
    """Every version of every table captured so far, by number; or at least those whose table or a column is called `containing`."""
    query = """SELECT version, table_schema, since, live FROM _replicator_tables
        WHERE instr(table_schema, ?) ORDER BY version"""
    rows = database.execute(query, (json.dumps(containing, ensure_ascii=False) if containing else "",))
    return {n: Version(n, TableSchema.from_json(json.loads(text)), s, bool(live)) for n, text, s, live in rows}


def add_version(database: sqlite3.Connection, shape: TableShape) -> int:
    """Start to capture a table as it is now, in the caller's write transaction; returns the version's number.

    Raises:
        NeedsUserError: RPL-3508 when a UNIQUE index over an expression would let REPLACE delete rows that no trigger logs.
    """
    if any(unique.expression for unique in shape.uniques):
        raise NeedsUserError(
            "a UNIQUE index over an expression lets INSERT OR REPLACE delete rows that no trigger sees",
            code="RPL-3508",
            hint="make the expression a generated column and index that",
            table=str(shape.schema.table),
        )
    _widen(database, len(shape.schema.columns))
    text = json.dumps(shape.schema.to_json(), ensure_ascii=False)
    number = database.execute(
        "INSERT INTO _replicator_tables (table_schema, since, live) VALUES (?, ?, 1)", (text, last_change(database))
    ).lastrowid
    assert number is not None
    create_triggers(database, number, shape)
    return number


def prune(database: sqlite3.Connection, rows: int, until: int | None = None) -> int:
    """Remove up to `rows` changes that no reader needs any more, in one short transaction; returns how many.

    The last one is kept: a restored database is recognised by it.

    Args:
        database: The source.
        rows: At most so many.
        until: The first change made at this time or later, in microseconds since 1970, stays with all after it; None for no time.
    """
    with transaction(database, write=True):
        (done,) = database.execute("SELECT min(change) FROM _replicator_readers").fetchone()
        if until is not None:
            young = "SELECT id FROM _replicator_changes WHERE at >= ? ORDER BY id LIMIT 1"
            first = database.execute(young, (until,)).fetchone()
            done = min(done or 0, first[0]) if first else done
        removed = database.execute(
            "DELETE FROM _replicator_changes WHERE id IN "
            "(SELECT id FROM _replicator_changes WHERE id < ? ORDER BY id LIMIT ?) RETURNING id",
            (done or 0, rows),
        ).fetchall()
        if removed:
            last = max(number for (number,) in removed)
            database.execute("UPDATE _replicator_facts SET value = max(value, ?) WHERE name = 'pruned'", (last,))
    return len(removed)


def _widen(database: sqlite3.Connection, columns: int) -> None:
    """Add columns for tables of `columns` columns; adding a column to a SQLite table rewrites no row."""
    for table, first, wanted in (("_replicator_changes", 4, 2 * columns), ("_replicator_replaced", 2, columns)):
        (existing,) = database.execute("SELECT count(*) FROM pragma_table_info(?)", (table,)).fetchone()
        for index in range(existing - first, wanted):
            database.execute(f"ALTER TABLE {table} ADD COLUMN c{index}")


def _fact(database: sqlite3.Connection, name: str) -> str | int:
    row: tuple[str | int] = database.execute("SELECT value FROM _replicator_facts WHERE name = ?", (name,)).fetchone()
    return row[0]
