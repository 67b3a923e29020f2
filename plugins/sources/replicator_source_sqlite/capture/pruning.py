"""Removes from the log what no reader needs any more: changes, and with a schema change the version that it ended."""

from __future__ import annotations

import sqlite3

from replicator_sdk.failpoint import failpoint, register
from replicator_source_sqlite.capture.changelog import DDL, fact, put_fact
from replicator_source_sqlite.capture.versions import forget_ended_by
from replicator_source_sqlite.connection import transaction

register("sqlite.prune.before_commit", "sqlite.prune.committed")


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
        old = "SELECT id, op FROM _replicator_changes WHERE id < ? ORDER BY id LIMIT ?"
        removed = database.execute(old, (done or 0, rows)).fetchall()
        schema_changes = [number for number, op in removed if op == DDL]
        if removed:
            last = removed[-1][0]
            forget_ended_by(database, [_facts(database, number) for number in schema_changes])
            database.execute("DELETE FROM _replicator_changes WHERE id <= ?", (last,))
            put_fact(database, "pruned", max(int(fact(database, "pruned") or 0), last))
        if schema_changes:
            failpoint("sqlite.prune.before_commit")
    if schema_changes:
        failpoint("sqlite.prune.committed")
    return len(removed)


def _facts(database: sqlite3.Connection, number: int) -> str:
    return str(database.execute("SELECT c0 FROM _replicator_changes WHERE id = ?", (number,)).fetchone()[0])
