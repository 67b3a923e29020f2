"""`replicator reset` that is killed has begun another generation or has not; the runs after it are equal either way."""

from __future__ import annotations

import json

import pytest

from replicator_state import ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair


@pytest.mark.parametrize("point", sorted(kill_points.OF_RESET))
def test_three_runs_after_a_kill_are_equal(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.run_until_current()
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    command = ("reset", str(pair.replicator.pipeline), "--yes")
    killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    directory = ReplicatorDirectory(str(pair.replicator.state), "default", "shop")
    assert directory.generations() == ([1, 2] if point.endswith("begun") else [1])
    pair.change_everything()
    pair.assert_recovered()
    assert pair.replicator.start_command(*command).wait().status == 0
    pair.change_rows()
    pair.assert_recovered()
