"""Tables that begin empty (`snapshot.mode` "never") lose no change after a kill: what was committed since they began is in the log.

The first table is empty at the source, too, so that source and copy must be equal from its beginning on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.connection import connect
from tests.crash import kill_points
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair


def assert_equal(pair: Pair) -> None:
    assert (pair.lost()["customer"], pair.doubled()) == (0, {"customer": 0, "note": 0})


@pytest.mark.parametrize("point", ["engine.snapshot.planned", "engine.snapshot.finished"])
def test_what_is_committed_after_a_kill_is_at_the_target(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.database.run("DELETE FROM customer")
    pair.replicator.settings = {
        **pair.replicator.settings,
        "snapshot": {"mode": "never", "order": ["customer"]},
        "parallelism": {"tables": 1},
    }
    pair.kill_at(point)
    pair.change_everything()
    for _ in range(3):
        pair.run_until_current()
        assert_equal(pair)
        assert pair.lost()["note"]
        pair.change_structure()
        pair.change_rows()
    pair.run_until_current()
    assert_equal(pair)
    assert pair.database.rows("customer")


@pytest.mark.parametrize(
    "point", [*sorted(kill_points.OF_STARTS), "engine.offset.before_save", "engine.snapshot.finished"]
)
def test_a_start_at_an_earlier_position_that_is_killed_begins_there_again(point: str, make_pair: MakePair) -> None:
    """Another replicator has the log kept, and both tables are empty at that position; so in the end source and copy are equal."""
    other = make_pair()
    other.run_until_current()
    other.database.run("DELETE FROM customer", "DELETE FROM note")
    other.run_until_current()
    with connect(other.database.path) as database:
        start = str(last_change(database))
    folder = other.replicator.folder / "later"
    settings = {**other.replicator.settings, "snapshot": {"mode": "never", "from": {"offset": start}}}
    replicator = replace(
        other.replicator,
        folder=folder,
        settings={**settings, "name": "later"},
        target=("file", {"path": str(folder / "target")}),
    )
    pair = replace(other, replicator=replicator)
    pair.change_rows()
    pair.change_structure()
    pair.kill_at(point)
    for _ in range(3):
        pair.change_rows()
        pair.change_structure()
        pair.change_rows()
        pair.run_until_current()
        assert_equal(pair)
        assert pair.lost()["note"] == 0
    assert pair.database.rows("customer")
    assert pair.database.rows("note")
