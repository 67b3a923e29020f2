"""Removes the replicator's own tables and triggers from a database, once no replicator reads it any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from replicator_sdk.discovery.clean_up import Leftover, SourceCleanUp, StoredState
from replicator_sdk.failpoint import failpoint, register
from replicator_source_sqlite.capture.changelog import identity
from replicator_source_sqlite.capture.readers import OWNER_KEY, forget_replicator, owner_of, readers
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
        replicator: `namespace/name`.
        stored: What its generations have stored; a reader of that name that it did not create stays.
    """

    def __init__(self, path: Path, replicator: str, stored: Sequence[StoredState]) -> None:
        self._path = path
        self._replicator = replicator
        self._stored = stored

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
            foreign = self._foreign(database)
            own = readers(database, self._replicator)
            found = [Leftover(f"the changelog's reader {name}", stays=foreign) for name in own]
            (triggers,) = database.execute(
                f"SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND {_OURS}"  # noqa: S608 - constants only
            ).fetchone()
            others = _others(database, [] if foreign else own)
            stays = f"other replicators read it: {', '.join(others)}" if others else foreign
        return [*found, Leftover(f"the changelog: tables _replicator_… and {triggers} triggers", stays=stays)]

    def remove(self) -> None:
        """One transaction."""
        with connect(self._path) as database:
            if not identity(database):
                return
            with transaction(database, write=True):
                if not self._foreign(database):
                    forget_replicator(database, self._replicator)
                    if not _others(database, []):
                        _drop_all(database)
        failpoint("sqlite.clean_up.done")

    def _foreign(self, database: sqlite3.Connection) -> str:
        """Why a reader of its name belongs to another state; empty when it does not."""
        owner = owner_of(database, self._replicator)
        if owner is None:  # noted by a version that knew no tokens, or not at all
            is_ours = any(one.get_state(OWNER_KEY) or one.get_offset() for one in self._stored)
            is_ours = is_ours or not readers(database, self._replicator)
        else:
            is_ours = any(one.get_state(OWNER_KEY) == owner.encode() for one in self._stored)
        return (
            ""
            if is_ours
            else "another replicator of this `namespace` and `name`, whose state is elsewhere, has created it"
        )


def _others(database: sqlite3.Connection, own: Sequence[str]) -> list[str]:
    names = database.execute("SELECT name FROM _replicator_readers ORDER BY name")
    return [name for (name,) in names if name not in own]


def _drop_all(database: sqlite3.Connection) -> None:
    for kind in ("trigger", "table"):
        query = f"SELECT name FROM sqlite_schema WHERE type = ? AND {_OURS}"  # noqa: S608 - constants only
        for (name,) in database.execute(query, (kind,)).fetchall():
            database.execute(f"DROP {kind} {quoted(name)}")
