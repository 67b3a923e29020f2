"""A run killed while a table fails for long, its lane is written, or the target gets it, is followed by runs that lose and double nothing."""

from __future__ import annotations

import pytest

from tests.crash import kill_points
from tests.crash.command import COMMAND as WITHOUT
from tests.crash.kill_points import Twin
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.failing_tables.failing_table import COMMAND, TAKEN
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND as REPLICATOR


def refuse_notes(pair: Pair, point: str, *, after: int = 0) -> None:
    """The target refuses the notes, after some commits of them; their changes go to a lane at once."""
    pair.replicator.settings = {**pair.replicator.settings, "failingTables": {"laneAfterMinutes": 0.00001}}
    pair.replicator.environment = {**pair.replicator.environment, TAKEN: str(after)}
    pair.replicator.command = (*COMMAND, "none", point)


@pytest.fixture(scope="module")
def failed(make_pairs: MakePair) -> Pair:
    """A pair whose notes are refused, with changes in their lane. To be copied, not to be run."""
    pair = make_pairs(name="failed")
    pair.run_until_current()
    refuse_notes(pair, "never")
    pair.change_rows()
    assert pair.replicator.start("--until-current").wait().status != 0  # in the next one the target gets the lane
    pair.replicator.command = REPLICATOR
    assert list(pair.differences()) == ["note"]
    assert list(pair.replicator.state.glob("default/shop/*/lanes/*"))
    return pair


REFUSALS = frozenset(point for point in kill_points.OF_LONG_FAILURES if ".refus" in point)


@pytest.mark.parametrize("point", sorted(REFUSALS))
def test_three_runs_after_a_kill_while_the_target_refuses_the_lane_halfway_are_equal(
    point: str, failed: Pair, make_pair: MakePair
) -> None:
    """The first commit of the drain was made, and the lane begins after it from then on."""
    pair = make_pair(like=failed)
    pair.replicator.settings = {**pair.replicator.settings, "batch": {"maxRows": 1}}
    pair.change_rows()
    refuse_notes(pair, point, after=1)
    killed(pair.replicator.start(), point)
    pair.change_rows()
    refuse_notes(pair, "never")
    assert pair.replicator.start("--until-current").wait().status != 0
    pair.replicator.command = REPLICATOR
    pair.change_rows()
    pair.change_structure()
    pair.assert_recovered()
    assert not list(pair.replicator.state.glob("default/shop/*/lanes/*"))


@pytest.mark.parametrize("point", sorted(kill_points.OF_LONG_FAILURES - REFUSALS))
def test_three_runs_after_a_kill_while_a_table_fails_for_long_are_equal(
    point: str, changed_pair: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=changed_pair)
    pair.change_rows()
    refuse_notes(pair, point)
    killed(pair.replicator.start(), point)
    pair.replicator.command = REPLICATOR
    pair.change_rows()
    pair.change_structure()
    pair.assert_recovered()


@pytest.mark.parametrize("point", sorted(kill_points.OF_RESUMES - {"engine.request.carried_out"}))
def test_three_runs_after_a_kill_while_the_target_gets_the_lane_of_a_failed_table_are_equal(
    point: str, failed: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=failed)
    pair.change_rows()
    pair.kill_at(point)
    pair.change_rows()
    pair.change_structure()
    pair.assert_recovered()
    assert not list(pair.replicator.state.glob("default/shop/*/lanes/*"))


def test_a_lane_of_a_failed_table_that_is_not_looked_for_after_a_kill_loses_rows(
    failed: Pair, make_pair: MakePair
) -> None:
    """The twin."""
    pair = make_pair(like=failed)
    [removed] = kill_points.PARTS_OF_LANES
    pair.replicator.command = (*WITHOUT, removed)
    pair.assert_next_run_harms(Twin(removed, "lost"))
    pair.replicator.command = REPLICATOR
