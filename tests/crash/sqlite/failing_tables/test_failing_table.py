"""A run killed while a failing table gives the source's log up is followed by runs that lose and double nothing.

The table was refused for longer than `failingTables.holdLogHours`; after the kill its changes are taken again. Each kill has a
twin without the part of the recovery that it needs.
"""

from __future__ import annotations

import pytest

from tests.crash import kill_points
from tests.crash.kill_points import Twin
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.failing_tables.failing_table import COMMAND
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND as REPLICATOR


def kill_while_the_log_is_released(pair: Pair, point: str, removed: str = "none") -> None:
    """Both tables change; one is refused and gives the log up, and the run is killed at `point`."""
    pair.replicator.settings = {**pair.replicator.settings, "failingTables": {"holdLogHours": 0.00001}}
    pair.replicator.command = (*COMMAND, removed, point)
    killed(pair.replicator.start(), point)
    pair.replicator.command = REPLICATOR
    pair.change_rows()


@pytest.mark.parametrize(("point", "twin"), kill_points.OF_RELEASE.items(), ids=kill_points.OF_RELEASE)
def test_three_runs_after_a_kill_while_a_table_gives_the_log_up_are_equal(
    point: str, twin: Twin, changed_pair: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=changed_pair)
    pair.change_rows()
    before = make_pair(like=pair, name="before")
    kill_while_the_log_is_released(pair, point)
    if twin.from_the_start:
        other = before
        kill_while_the_log_is_released(other, point, twin.removed)
    else:
        other = make_pair(like=pair, removed=twin.removed, name="twin")
    other.assert_next_run_harms(twin)
    pair.assert_recovered()
