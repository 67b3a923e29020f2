"""A table whose changes are in a lane since it fails is equal again after `heal`, `reset` and `rewind`."""

from __future__ import annotations

import pytest

from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.failing_tables.test_long_failure import refuse_notes
from tests.crash.sqlite.lost_log.test_heal import command, lose_log
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND, Ended


def carried_out(pair: Pair, name: str) -> Ended:
    """Give the command, with what it needs."""
    if name == "heal":
        lose_log(pair)
        return pair.replicator.start_command(*command(pair)).wait()
    pair.change_rows()
    path = str(pair.replicator.pipeline)
    if name == "reset":
        return pair.replicator.start_command("reset", path, "--yes").wait()
    kept = pair.replicator.start_command("offsets", "list", path).wait().envelope["data"]
    return pair.replicator.start_command("rewind", path, "--offset", str(kept[-2]["name"]), "--yes").wait()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["heal", "reset", "rewind"])
def test_three_runs_after_a_command_for_a_pipeline_with_a_failing_tables_lane_are_equal(
    make_pair: MakePair, name: str
) -> None:
    pair = make_pair(delta=True)
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "keepChangesHours": 1})
    pair.run_until_current()
    pair.change_rows()
    pair.run_until_current()
    refuse_notes(pair, "never")
    pair.change_rows()
    assert pair.replicator.start("--until-current").wait().status != 0
    assert list(pair.replicator.state.glob("default/shop/*/lanes/*"))
    pair.replicator.command = COMMAND
    ended = carried_out(pair, name)
    assert ended.status == 0, ended.messages
    pair.assert_recovered()
