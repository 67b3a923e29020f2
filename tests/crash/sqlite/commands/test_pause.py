"""`replicator pause` and `resume`, killed at any step and given again; the runs after them are equal."""

from __future__ import annotations

import json

import pytest

from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.follows import follows


@follows("RPL-1247")
@pytest.mark.parametrize("point", sorted(kill_points.OF_REQUESTS))
def test_a_pause_holds_and_ends_whichever_step_is_killed(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.run_until_current()
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    pipeline, kill = str(pair.replicator.pipeline), {"REPLICATOR_FAILPOINTS": f"{point}=kill"}
    pair.change_rows()
    before = pair.differences()
    killed(pair.replicator.start_command("pause", pipeline, **kill), point)
    ended = pair.replicator.run("--until-current")  # which carries out what the killed command had asked for
    assert (ended.status, ended.error["code"]) == (3, "RPL-1247")
    assert pair.differences() == before
    status = pair.replicator.start_command("status", pipeline).wait()
    assert status.envelope["data"]["paused"]["since"]
    killed(pair.replicator.start_command("resume", pipeline, **kill), point)
    assert pair.replicator.start_command("resume", pipeline).wait().status == 0
    pair.change_everything()
    pair.assert_recovered()
