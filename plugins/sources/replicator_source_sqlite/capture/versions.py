"""Versions of captured tables in `_replicator_tables`: the columns that the changes of the log have, while any of these is kept.

A version ends with the schema change that the log has of it. Until that one is pruned a reader may begin before it, and there the
version holds; afterwards none can, since a reader begins after the last pruned change or is refused (`check_reach`). So both are
removed in one transaction, and a version is never younger than the log. Numbers are never used again: a reader may know the former one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from replicator_sdk import TableSchema
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_source_sqlite.capture.changelog import DDL, fact, last_change, put_fact
from replicator_source_sqlite.capture.triggers import create_triggers
from replicator_source_sqlite.catalogue import TableShape
from replicator_source_sqlite.connection import transaction

register("sqlite.versions.before_commit", "sqlite.versions.committed")

_LAST = "last version"
_ONLY_NEEDED = "only needed versions"
"""Facts: the highest number given so far; whether what an earlier version of the replicator kept for ever was removed."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one captured table.

    Attributes:
        number: Its number, unique over all tables and times.
        schema: All columns of the table, in order.
        since: It holds for changes after this one.
        live: Whether its triggers should be in place.
    """

    number: int
    schema: TableSchema
    since: int
    live: bool


def live_versions(database: sqlite3.Connection, *, containing: str = "") -> list[Version]:
    """The version of every captured table, by number; or at least those whose table or a column is called `containing`."""
    query = """SELECT version, table_schema, since, live FROM _replicator_tables
        WHERE live AND instr(table_schema, ?) ORDER BY version"""
    rows = database.execute(query, (json.dumps(containing, ensure_ascii=False) if containing else "",))
    return [_version(*row) for row in rows]


def refresh_versions(database: sqlite3.Connection, known: dict[int, Version]) -> None:
    """Add the versions that `known` lacks, by number, and remove those that no change of the log has; costs nothing for the others."""
    kept = [number for (number,) in database.execute("SELECT version FROM _replicator_tables ORDER BY version")]
    for number in known.keys() - set(kept):
        del known[number]
    query = "SELECT version, table_schema, since, live FROM _replicator_tables WHERE version = ?"
    for number in kept:
        if number not in known and (row := database.execute(query, (number,)).fetchone()):
            known[number] = _version(*row)


def _version(number: int, text: str, since: int, live: int) -> Version:
    return Version(number, TableSchema.from_json(json.loads(text)), since, bool(live))


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
    number = _last_number(database) + 1
    database.execute(
        "INSERT INTO _replicator_tables (version, table_schema, since, live) VALUES (?, ?, ?, 1)",
        (number, text, last_change(database)),
    )
    create_triggers(database, number, shape)
    return number


def forget_ended_by(database: sqlite3.Connection, schema_changes: Collection[str]) -> None:
    """Remove the versions that these schema changes ended, in the write transaction that prunes the changes themselves.

    Args:
        database: The source.
        schema_changes: The facts of each, as the log has them.
    """
    _remove(database, [_ended_by(text) for text in schema_changes])


def forget_unneeded(database: sqlite3.Connection) -> None:
    """Remove, once for each database, the ended versions that no kept change needs: earlier versions of the replicator kept them all."""
    if fact(database, _ONLY_NEEDED):
        return
    with transaction(database):  # reads the whole log once, without a lock that writers meet
        ended = [number for (number,) in database.execute("SELECT version FROM _replicator_tables WHERE NOT live")]
        query = f"SELECT c0 FROM _replicator_changes WHERE op = {DDL}"  # noqa: S608 - constants only
        needed = {_ended_by(text) for (text,) in database.execute(query)} if ended else set()
    with transaction(
        database, write=True
    ):  # one that was needed meanwhile was needed before: the log has its end first
        _remove(database, [number for number in ended if number not in needed])
        put_fact(database, _ONLY_NEEDED, 1)
        failpoint("sqlite.versions.before_commit")
    failpoint("sqlite.versions.committed")


def _ended_by(schema_change: str) -> int:
    return int(json.loads(schema_change)["previous"])


def _remove(database: sqlite3.Connection, numbers: Collection[int]) -> None:
    if not numbers:
        return
    put_fact(database, _LAST, _last_number(database))
    ended = [(number,) for number in numbers]
    database.executemany("DELETE FROM _replicator_tables WHERE version = ? AND NOT live", ended)
    database.executemany("DELETE FROM _replicator_replaced WHERE version = ?", ended)


def _last_number(database: sqlite3.Connection) -> int:
    """The highest number that any version has or had."""
    (highest,) = database.execute("SELECT coalesce(max(version), 0) FROM _replicator_tables").fetchone()
    return max(int(highest), int(fact(database, _LAST) or 0))


def _widen(database: sqlite3.Connection, columns: int) -> None:
    """Add columns for tables of `columns` columns; adding a column to a SQLite table rewrites no row."""
    for table, first, wanted in (("_replicator_changes", 4, 2 * columns), ("_replicator_replaced", 2, columns)):
        (existing,) = database.execute("SELECT count(*) FROM pragma_table_info(?)", (table,)).fetchone()
        for index in range(existing - first, wanted):
            database.execute(f"ALTER TABLE {table} ADD COLUMN c{index}")
