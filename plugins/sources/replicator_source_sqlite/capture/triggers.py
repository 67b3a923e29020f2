"""The triggers that write the changelog.

INSERT OR REPLACE and UPDATE OR REPLACE delete conflicting rows without firing any DELETE trigger. So a BEFORE trigger
notes the rows that the new one conflicts with, and the AFTER trigger, which fires only when the row was written, logs the
noted rows that no longer exist as deleted. The next BEFORE trigger removes what IGNORE or an upsert left noted.
"""

# ruff: noqa: S608 - names pass through `quoted`
from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from replicator_source_sqlite.catalogue import TableShape, Unique
from replicator_source_sqlite.connection import quoted

NOW: Final = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
"""SQL for microseconds since 1970 UTC, to the millisecond, which is the precision of SQLite's clock."""
_KINDS: Final = ("before_insert", "insert", "before_update", "update", "delete")


def trigger_names(version: int) -> frozenset[str]:
    """Names a version's triggers may have."""
    return frozenset(f"_replicator_{version}_{kind}" for kind in _KINDS)


def create_triggers(database: sqlite3.Connection, version: int, shape: TableShape) -> None:
    """Create the triggers that log every change of the table as `version`, from the transaction's end on.

    SQLite fires the newest trigger first, so these must be newer than the application's: otherwise a change by an
    application's trigger would be logged before the change that fired it.
    """
    for name, event, body in _triggers(version, shape):
        table = quoted(shape.schema.table.table)
        statements = " ".join(f"{statement};" for statement in body)
        database.execute(f"CREATE TRIGGER {name} {event} ON {table} FOR EACH ROW BEGIN {statements} END")


def drop_triggers(database: sqlite3.Connection, version: int) -> None:
    """Drop those of a version's triggers that exist."""
    for name in trigger_names(version):
        database.execute(f"DROP TRIGGER IF EXISTS {name}")


def _triggers(version: int, shape: TableShape) -> Iterable[tuple[str, str, list[str]]]:
    names = [quoted(name) for name in shape.schema.names]
    new, old = [f"NEW.{n}" for n in names], [f"OLD.{n}" for n in names]
    nothing = ["NULL"] * len(names)
    name = f"_replicator_{version}_"
    insert, update = [_log(version, 1, new)], [_log(version, 2, new + old)]
    delete = [_log(version, 3, nothing + old)]
    if shape.uniques:
        keys = dict.fromkeys(column for unique in shape.uniques for column, _ in unique.columns)
        of = "" if shape.generated & keys.keys() else f" OF {', '.join(map(quoted, keys))}"
        yield f"{name}before_insert", "BEFORE INSERT", _note(version, shape, "")
        other = f" AND NOT ({_same_row(shape, 'r', 'OLD')})"
        yield f"{name}before_update", f"BEFORE UPDATE{of}", _note(version, shape, other)
        insert = [*_log_replaced(version, shape, ""), *insert]
        update = [*_log_replaced(version, shape, f" AND NOT ({_same_noted(shape, 'OLD')})"), *update]
        delete += [f"DELETE FROM _replicator_replaced WHERE version = {version} AND {_same_noted(shape, 'OLD', '')}"]
    yield f"{name}insert", "AFTER INSERT", insert
    yield f"{name}update", "AFTER UPDATE", update
    yield f"{name}delete", "AFTER DELETE", delete


def _log(version: int, op: int, values: Sequence[str]) -> str:
    columns = "".join(f", c{i}" for i in range(len(values)))
    listed = "".join(f", {value}" for value in values)
    return f"INSERT INTO _replicator_changes (version, op, at{columns}) VALUES ({version}, {op}, {NOW}{listed})"


def _note(version: int, shape: TableShape, condition: str) -> list[str]:
    """Note the rows that conflict with the new row."""
    names = [quoted(name) for name in shape.schema.names]
    places = "".join(f", c{i}" for i in range(len(names)))
    values = "".join(f", r.{name}" for name in names)
    conflict = " OR ".join(f"({_conflict(unique)})" for unique in shape.uniques)
    noted = f"{version}, {f'r.{shape.rowid}' if shape.rowid else 'NULL'}{values}"
    note = f"INSERT INTO _replicator_replaced (version, row_number{places}) SELECT {noted}"
    source = f"FROM {quoted(shape.schema.table.table)} AS r WHERE ({conflict}){condition}"
    return [f"DELETE FROM _replicator_replaced WHERE version = {version}", f"{note} {source}"]


def _log_replaced(version: int, shape: TableShape, condition: str) -> list[str]:
    """Log the noted rows that no longer exist, or that the new row has replaced."""
    count = len(shape.schema.columns)
    places = "".join(f", c{i + count}" for i in range(count))
    values = "".join(f", p.c{i}" for i in range(count))
    exists = f"EXISTS (SELECT 1 FROM {quoted(shape.schema.table.table)} AS r WHERE {_same_noted(shape, 'r')})"
    log = f"INSERT INTO _replicator_changes (version, op, at{places}) SELECT {version}, 3, {NOW}{values}"
    gone = f"({_same_noted(shape, 'NEW')} OR NOT {exists}){condition}"
    return [
        f"{log} FROM _replicator_replaced AS p WHERE p.version = {version} AND {gone}",
        f"DELETE FROM _replicator_replaced WHERE version = {version}",
    ]


def _conflict(unique: Unique) -> str:
    return " AND ".join(f"r.{quoted(n)} = NEW.{quoted(n)} COLLATE {quoted(c)}" for n, c in unique.columns)


def _same_row(shape: TableShape, one: str, other: str) -> str:
    """Whether two rows are the same, by the storage key."""
    if shape.rowid:
        return f"{one}.{shape.rowid} = {other}.{shape.rowid}"
    return " AND ".join(f"{one}.{quoted(n)} = {other}.{quoted(n)}" for n in shape.declared_key)


def _same_noted(shape: TableShape, row: str, noted: str = "p.") -> str:
    """Whether the noted row is `row`, by the storage key."""
    if shape.rowid:
        return f"{noted}row_number = {row}.{shape.rowid}"
    places = {name: i for i, name in enumerate(shape.schema.names)}
    return " AND ".join(f"{noted}c{places[n]} = {row}.{quoted(n)}" for n in shape.declared_key)
