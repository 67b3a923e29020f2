"""Detects ALTER TABLE and other schema changes by comparison, since SQLite has no trigger for them, and logs them.

One write transaction for each table compares it with its live version, replaces the triggers and logs one row that records
the change; so every reader, also in a replay, finds it at the same position among the changes.

While the old triggers exist, SQLite allows columns to be renamed and added only (it refuses to drop a column that a trigger
names), so the order of the columns shows renames exactly. Rows changed between an ADD COLUMN and its detection were logged
without the new column's value: those that still exist are logged again, whole. Where triggers were missing for a while (the
table was rebuilt), changes may be missing from the log: the table must be copied again.
"""

# ruff: noqa: S608 - names pass through `quoted`
from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replicator_sdk import TableId
from replicator_source_sqlite.capture.changelog import DDL, last_change
from replicator_source_sqlite.capture.triggers import NOW, drop_triggers, trigger_names
from replicator_source_sqlite.capture.versions import Version, add_version, live_versions
from replicator_source_sqlite.catalogue import DATABASE, TableShape, describe, is_ordinary
from replicator_source_sqlite.connection import file_identity, quoted, transaction


@dataclass(frozen=True, slots=True)
class Drift:
    """How a table differs from its live version.

    Attributes:
        version: The live version.
        shape: The table now; None when it was dropped.
        complete: Whether all its triggers existed all the time.
        ordered: Whether none of the application's triggers is newer than ours, so that changes were logged in order.
        origin: New column name → its name in the version; only columns that existed.
    """

    version: Version
    shape: TableShape | None
    complete: bool
    ordered: bool
    origin: dict[str, str]

    @property
    def renames(self) -> bool:
        """Whether the table has another name."""
        return self.shape is not None and self.shape.schema.table != self.version.schema.table


def synchronise(database: sqlite3.Connection, seen: int) -> tuple[int, int]:
    """Bring versions and triggers up to date with the tables.

    Args:
        database: The source.
        seen: A change up to which the versions are known to have been right; they are as well up to the position of every
            reader.

    Returns:
        SQLite's `schema_version` for which they are right now, and the last change at that moment.
    """
    (remembered,) = database.execute("SELECT coalesce(max(change), 0) FROM _replicator_readers").fetchone()
    while True:
        with transaction(database):
            found = [(v, _drift(database, v)) for v in live_versions(database)]
            # Dropped ones first: another table may have the name.
            dropped = [v for v, drift in found if drift and drift.shape is None]
            drifted = [*dropped, *(v for v, drift in found if drift and drift.shape is not None)]
            state = schema_version(database), last_change(database)
        if not drifted:
            return state
        for version in drifted:
            with transaction(database, write=True):
                drifts = _with_exchanged(database, version.number)
                for left, drift in enumerate(reversed(drifts)):
                    _log_drift(database, drift, max(seen, remembered), together=left < len(drifts) - 1)


class KnownSchema:
    """The schema for which all versions are known to be right; shared by the copies of a run. Safe from any thread.

    To compare n captured tables for each of n copies would take time that grows with the square of n.

    Args:
        path: The database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, int], int] | None = None

    def synchronise(self, database: sqlite3.Connection) -> None:
        """Do what `synchronise` does unless no schema changed since it was done for this very file."""
        with self._lock:
            file = file_identity(self._path)
            with transaction(database):
                now = schema_version(database)
            if (file, now) != self._known:
                self._known = (file, synchronise(database, 0)[0])

    def forget(self) -> None:
        """Compare at the next call in any case."""
        with self._lock:
            self._known = None


def _with_exchanged(database: sqlite3.Connection, number: int) -> list[Drift]:
    """How the version's table differs from it, and those of the tables whose names it and they have taken.

    The last one is logged first: where a name was free because its table was dropped, the log says that before.
    """
    numbered = {v.number: v for v in live_versions(database)}
    live = {v.schema.table: v for v in numbered.values()}
    found: list[Drift] = []
    version = numbered.get(number)
    while version is not None and (drift := _drift(database, version)):
        found.append(drift)
        taken = live.get(drift.shape.schema.table) if drift.shape else None
        version = taken if taken not in [each.version for each in found] else None
    return found


def drifts(database: sqlite3.Connection, table: TableId) -> bool:
    """Whether a captured table has a schema change that is not in the log yet; read in the caller's transaction."""
    live = live_versions(database, containing=table.table)
    return any(v.schema.table == table and _drift(database, v) for v in live)


def schema_version(database: sqlite3.Connection) -> int:
    """SQLite's counter of schema changes; inside a transaction it is consistent with what else is read there."""
    return int(database.execute("PRAGMA schema_version").fetchone()[0])


def _drift(database: sqlite3.Connection, version: Version) -> Drift | None:
    """How the version's table differs from it; None when it does not."""
    placed = dict(
        database.execute(
            "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB ?",
            (f"_replicator_{version.number}_*",),
        ).fetchall()
    )
    name = next(iter(placed.values()), version.schema.table.table)
    if not is_ordinary(database, name) or (not placed and _is_another(database, name)):
        return Drift(version, None, complete=False, ordered=False, origin={})
    shape = describe(database, TableId(DATABASE, name))
    wanted = trigger_names(version.number)
    complete = set(placed) == (wanted if shape.uniques else {n for n in wanted if "_before_" not in n})
    ordered = _newest(database, version.number, name)
    if complete and ordered and shape.schema == version.schema:
        return None
    old, new = version.schema.names, shape.schema.names
    origin = dict(zip(new, old, strict=False)) if complete else {n: n for n in new if n in version.schema}
    return Drift(version, shape, complete, ordered, origin)


def _is_another(database: sqlite3.Connection, table: str) -> bool:
    """Whether the table has the triggers of some version: of one that has another name, when it is asked for a version without."""
    query = "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND name GLOB '_replicator_*'"
    return database.execute(query, (table,)).fetchone() is not None


def _newest(database: sqlite3.Connection, version: int, table: str) -> bool:
    """Whether no other trigger on the table is newer than the version's."""
    own = f"_replicator_{version}_*"
    query = """SELECT coalesce(max(rowid) FILTER (WHERE name NOT GLOB :own), 0) < min(rowid) FILTER (WHERE name GLOB :own)
        FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = :table COLLATE NOCASE"""
    return bool(database.execute(query, {"own": own, "table": table}).fetchone()[0])


def _log_drift(database: sqlite3.Connection, drift: Drift, seen: int, *, together: bool) -> None:
    """Replace version and triggers, and log the change; in the caller's write transaction.

    Args:
        database: The source.
        drift: The change.
        seen: As in `synchronise`.
        together: Whether the next one belongs to this one: tables took each other's names.
    """
    old, shape = drift.version, drift.shape
    drop_triggers(database, old.number)
    database.execute("UPDATE _replicator_tables SET live = 0 WHERE version = ?", (old.number,))
    if shape is None:
        _log(database, old.number, {"operation": "DROP_TABLE", "previous": old.number}, [])
        return
    added = [c.name for c in shape.schema.columns if c.name not in drift.origin]
    repairable = _repairable(drift, shape, added)
    touched = _touched(database, old, seen)
    number = add_version(database, shape)
    facts = {
        "operation": "RENAME_TABLE" if drift.renames else "ALTER_TABLE",
        "previous": old.number,
        "origin": drift.origin,
        "added": added,
        "together": together,
        "needsSnapshot": not drift.complete or bool(shape.generated & set(added)) or (touched and not repairable),
    }
    _log(database, number, facts, _defaults(database, shape, added))
    database.execute("UPDATE _replicator_tables SET since = ? WHERE version = ?", (last_change(database), number))
    if touched and repairable and added:
        _log_again(database, old, number, shape, drift.origin, seen)


def _repairable(drift: Drift, shape: TableShape, added: Sequence[str]) -> bool:
    """Whether rows changed before the detection are right in the log, or can be logged again by their key."""
    return drift.ordered and (not added or bool(shape.schema.primary_key))


def _touched(database: sqlite3.Connection, version: Version, seen: int) -> bool:
    query = "SELECT 1 FROM _replicator_changes WHERE version = ? AND id > ? LIMIT 1"
    return database.execute(query, (version.number, seen)).fetchone() is not None


def _defaults(database: sqlite3.Connection, shape: TableShape, added: Sequence[str]) -> list[Any]:
    """The values of existing rows in added columns; SQLite allows constants only."""
    texts = dict(zip(shape.schema.names, shape.defaults, strict=True))
    return [database.execute(f"SELECT {texts[name] or 'NULL'}").fetchone()[0] for name in added]


def _log(database: sqlite3.Connection, version: int, facts: dict[str, Any], values: list[Any]) -> None:
    """Log one row for a schema change: its facts in c0, then the defaults of the added columns."""
    places = "".join(f", c{i}" for i in range(1 + len(values)))
    marks = ", ?" * (1 + len(values))
    database.execute(
        f"INSERT INTO _replicator_changes (version, op, at{places}) VALUES (?, {DDL}, {NOW}{marks})",
        (version, json.dumps(facts, ensure_ascii=False), *values),
    )


def _log_again(
    database: sqlite3.Connection, old: Version, number: int, shape: TableShape, origin: dict[str, str], seen: int
) -> None:
    """Log the rows that changed after `seen` again, as updates with all current columns."""
    schema, place = shape.schema, {name: i for i, name in enumerate(old.schema.names)}
    places = "".join(f", c{i}" for i in range(2 * len(schema.columns)))
    values = "".join(f", t.{quoted(name)}" for name in schema.names) * 2
    key = ", ".join(f"t.{quoted(name)}" for name in schema.primary_key)
    logged = ", ".join(f"h.c{place[origin[name]]}" for name in schema.primary_key)
    database.execute(
        f"INSERT INTO _replicator_changes (version, op, at{places}) SELECT {number}, 2, {NOW}{values} "
        f"FROM {quoted(schema.table.table)} AS t WHERE ({key}) IN "
        f"(SELECT {logged} FROM _replicator_changes AS h WHERE h.id > ? AND h.version = ? AND h.op IN (1, 2)) "
        f"ORDER BY {key}",
        (seen, old.number),
    )
