"""The changelog inside the source: its tables, and what is in it.

`_replicator_changes` holds one row per change, numbered without reuse: which version of which table, what happened, when,
and the values as SQLite stores them (columns without a type do not convert): after the change in `c0`, `c1`, …, before it
in as many columns after those. `_replicator_tables` lists the columns of each version that a change
of the log has (`versions`), and what is removed of both is in `pruning`.
"""

from __future__ import annotations

import sqlite3
import uuid

from replicator_sdk.errors import HistoryLostError
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
    return str(fact(database, "identity") or "") if installed else ""


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
    if int(fact(database, "pruned") or 0) > offset.change:
        raise HistoryLostError(
            "changes after the saved offset were removed from the changelog",
            code="RPL-3506",
            hint=HEAL + "; do not change _replicator_readers while a replicator does not run",
            position=str(offset),
        )


def fact(database: sqlite3.Connection, name: str) -> str | int | float | None:
    """What `_replicator_facts` has under `name`; None for nothing."""
    query = "SELECT value FROM _replicator_facts WHERE name = ?"
    row: tuple[str | int | float] | None = database.execute(query, (name,)).fetchone()
    return None if row is None else row[0]


def put_fact(database: sqlite3.Connection, name: str, value: str | float) -> None:
    """Store a fact in the caller's write transaction."""
    statement = "INSERT INTO _replicator_facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    database.execute(statement, (name, value))
