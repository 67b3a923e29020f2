"""A run with `snapshot.mode` "only" that is killed is gone on with by the next, which ends with every table as of one position."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.crash import kill_points
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair


def ours(pair: Pair) -> list[str]:
    """What the replicator has in the database."""
    with closing(sqlite3.connect(pair.database.path)) as database:
        return [
            name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE name LIKE '\\_rep%' ESCAPE '\\'")
        ]


def assert_ended(pair: Pair) -> None:
    """Three more runs, with changes and a change of structure before each, do nothing."""
    assert ours(pair) == []
    then = [pair._copy(table) for table in ("customer", "note")]
    for _ in range(3):
        pair.change_rows()
        pair.change_structure()
        refused = pair.replicator.run()
        assert (refused.status, refused.error["code"]) == (3, "RPL-2064"), refused.messages
    assert [pair._copy(table) for table in ("customer", "note")] == then
    assert ours(pair) == []


@pytest.mark.parametrize("point", ["engine.snapshot.planned", "engine.snapshot.finished", "engine.offset.before_save"])
def test_a_run_after_a_kill_copies_the_rest_and_ends(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.replicator.settings = {**pair.replicator.settings, "snapshot": {"mode": "only"}}
    pair.kill_at(point)
    pair.change_everything()
    ended = pair.replicator.run()
    assert ended.status == 0, ended.messages
    assert pair.differences() == {}
    assert_ended(pair)


@pytest.mark.parametrize("point", sorted(kill_points.OF_ONLY))
def test_a_run_after_a_kill_releases_the_source(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.replicator.settings = {**pair.replicator.settings, "snapshot": {"mode": "only"}}
    pair.kill_at(point)
    assert pair.differences() == {}
    assert_ended_after_release(pair)


def assert_ended_after_release(pair: Pair) -> None:
    refused = pair.replicator.run()
    assert (refused.status, refused.error["code"]) == (3, "RPL-2064"), refused.messages
    assert_ended(pair)
