"""Removes the replicator's own tables and triggers from a database, once no replicator reads it any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from replicator_sdk.discovery.clean_up import Leftover, SourceCleanUp
from replicator_sdk.failpoint import failpoint, register
from replicator_source_sqlite.capture.changelog import identity
from replicator_source_sqlite.connection import connect, quoted, transaction

register("sqlite.clean_up.done")

_OURS = "name GLOB '_replicator_*'"
_BY_HAND = (
    "SELECT 'DROP ' || type || ' ' || quote(name) || ';' FROM sqlite_schema WHERE name GLOB '_replicator_*'"
    " AND type IN ('table', 'trigger') ORDER BY type DESC; (run what it prints)"
)


class SqliteCleanUp(SourceCleanUp):
    """Forgets this replicator as a reader; the last one takes triggers and tables with it, in one transaction.

    Args:
        path: The database.
        reader: What the names of its readers begin with: `namespace/name/`, then the generation.
    """

    def __init__(self, path: Path, reader: str) -> None:
        self._path = path
        self._reader = reader

    def expected(self) -> Sequence[Leftover]:
        """Triggers and tables."""
        return [Leftover("the triggers and tables named _replicator_…", _BY_HAND)]

    def identity(self) -> str:
        """What `install` gave to the database; empty when nothing of the replicator is in it."""
        with connect(self._path, read_only=True) as database:
            return identity(database)

    def find(self) -> Sequence[Leftover]:
        """Its entry, triggers and tables."""
        with connect(self._path, read_only=True) as database:
            if not identity(database):
                return []
            found = [Leftover(f"the changelog's reader {name}") for name in _readers(database, self._reader, own=True)]
            (triggers,) = database.execute(
                f"SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND {_OURS}"  # noqa: S608 - constants only
            ).fetchone()
            others = _readers(database, self._reader, own=False)
            stays = f"other replicators read it: {', '.join(others)}" if others else ""
        return [*found, Leftover(f"the changelog: tables _replicator_… and {triggers} triggers", stays=stays)]

    def remove(self) -> None:
        """One transaction."""
        with connect(self._path) as database:
            if not identity(database):
                return
            with transaction(database, write=True):
                database.execute(
                    "DELETE FROM _replicator_readers WHERE substr(name, 1, ?) = ?", (len(self._reader), self._reader)
                )
                if not _readers(database, self._reader, own=False):
                    _drop_all(database)
        failpoint("sqlite.clean_up.done")


def _readers(database: sqlite3.Connection, prefix: str, *, own: bool) -> list[str]:
    names = database.execute("SELECT name FROM _replicator_readers ORDER BY name")
    return [name for (name,) in names if name.startswith(prefix) is own]


def _drop_all(database: sqlite3.Connection) -> None:
    for kind in ("trigger", "table"):
        query = f"SELECT name FROM sqlite_schema WHERE type = ? AND {_OURS}"  # noqa: S608 - constants only
        for (name,) in database.execute(query, (kind,)).fetchall():
            database.execute(f"DROP {kind} {quoted(name)}")
