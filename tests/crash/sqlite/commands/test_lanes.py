"""Tables that are paused and resumed lose and double nothing, whichever step of it a run is killed at."""

from __future__ import annotations

import time

import pytest

from replicator_state import ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.command import COMMAND as WITHOUT
from tests.crash.kill_points import Twin
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND


def ask(pair: Pair, command: str) -> None:
    requests = ReplicatorDirectory(str(pair.replicator.state), "default", "shop").requests()
    requests.submit(f"table.{command}", {"tables": ["customer", "note"]})


@pytest.fixture(scope="module")
def paused(make_pairs: MakePair) -> Pair:
    """A pair whose tables are paused, with rows and an ALTER in their lanes. To be copied, not to be run."""
    pair = make_pairs(name="paused")
    pair.run_until_current()
    ask(pair, "pause")
    pair.change_everything()
    pair.run_until_current()
    assert sorted(pair.differences()) == ["customer", "note"]
    return pair


@pytest.mark.parametrize("point", sorted(kill_points.OF_PAUSES))
def test_three_runs_after_a_kill_while_tables_are_paused_are_equal(
    point: str, changed_pair: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=changed_pair)
    ask(pair, "pause")
    pair.kill_at(point)
    pair.change_rows()
    pair.change_structure()
    ask(pair, "resume")
    pair.assert_recovered()


@pytest.mark.parametrize("point", sorted(kill_points.OF_RESUMES))
def test_three_runs_after_a_kill_while_tables_are_resumed_are_equal(
    point: str, paused: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=paused)
    ask(pair, "resume")
    pair.change_rows()
    pair.kill_at(point)
    pair.change_rows()
    pair.change_structure()
    pair.assert_recovered()
    assert not list(pair.replicator.state.glob("default/shop/*/lanes/*"))


def test_lanes_that_are_not_looked_for_after_a_kill_lose_rows(paused: Pair, make_pair: MakePair) -> None:
    """The twin."""
    pair = make_pair(like=paused)
    pair.change_rows()
    pair.kill_at("engine.offset.after_save")
    [removed] = kill_points.PARTS_OF_LANES
    pair.replicator.command = (*WITHOUT, removed)
    ask(pair, "resume")
    pair.assert_next_run_harms(Twin(removed, "lost"))
    pair.replicator.command = COMMAND


def test_tables_of_delta_are_paused_and_resumed_beside_a_run_and_after_kills(make_pair: MakePair) -> None:
    pair = make_pair(delta=True)
    pair.run_until_current()
    ask(pair, "pause")
    pair.change_rows()
    pair.kill_at("engine.lane.after_write")
    pair.change_everything()
    pair.run_until_current()
    assert sorted(pair.differences()) == ["customer", "note"]
    running = pair.start()
    ask(pair, "resume")
    deadline = time.monotonic() + 120
    while pair.differences():
        assert time.monotonic() < deadline
        time.sleep(0.5)
    running.stop()
    ask(pair, "pause")
    pair.change_rows()
    pair.change_structure()
    pair.run_until_current()
    ask(pair, "resume")
    pair.change_rows()
    pair.kill_at("engine.lane.after_step")
    pair.change_rows()
    pair.run_until_current()
    assert pair.differences() == {}
