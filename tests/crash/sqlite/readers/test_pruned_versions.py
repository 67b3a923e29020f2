"""A run that is killed while it removes former columns of a table from the source is followed by three runs that end equal."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.crash.kill_points import OF_VERSIONS
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.database import Database, Writer
from tests.crash.sqlite.pair import Pair


def test_three_runs_after_a_kill_while_versions_are_removed_are_equal(changed_pair: Pair, make_pair: MakePair) -> None:
    for number, point in enumerate(sorted(OF_VERSIONS)):
        pair = make_pair(like=changed_pair, name=f"pair{number}")
        pair.database.run("DELETE FROM _replicator_facts WHERE name = 'only needed versions'")  # as it was of old
        with Writer(pair.database, pair.chance, pause=0.2):  # an offset is acknowledged once a later one is saved
            killed(pair.start(point=point), point)
        pair.change_rows()
        pair.assert_recovered()
        assert ended(pair.database) == ended_by_kept_changes(pair.database)


def ended(database: Database) -> set[int]:
    """The former versions that are stored."""
    with closing(sqlite3.connect(database.path, timeout=30)) as opened:
        return {number for (number,) in opened.execute("SELECT version FROM _replicator_tables WHERE NOT live")}


def ended_by_kept_changes(database: Database) -> set[int]:
    """Those that a schema change in the log has ended."""
    with closing(sqlite3.connect(database.path, timeout=30)) as opened:
        changes = opened.execute("SELECT json_extract(c0, '$.previous') FROM _replicator_changes WHERE op = 0")
        return {number for (number,) in changes}
