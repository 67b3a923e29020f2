"""`replicator reset` that is killed has begun another generation or has not; the runs after it are equal either way."""

from __future__ import annotations

import json
import shutil

import pytest

from replicator_state import ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.follows import follows


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


@pytest.mark.parametrize("point", sorted(kill_points.OF_RESET))
def test_after_a_lost_state_a_kill_changes_nothing_either(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.run_until_current()
    shutil.rmtree(pair.replicator.state)
    command = ("reset", str(pair.replicator.pipeline), "--yes", "--lost-state")
    killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    assert pair.replicator.start_command(*command).wait().status == 0
    pair.change_everything()
    pair.assert_recovered()


@follows("RPL-8401")
def test_tables_that_know_newer_runs_than_the_state_are_copied_again(make_pair: MakePair) -> None:
    """In Delta: the state is lost, and later an old copy of it is put back."""
    pair = make_pair(delta=True)
    pair.run_until_current()
    state, old = pair.replicator.state, pair.replicator.folder / "old"
    shutil.copytree(state, old)
    pair.change_rows()
    pair.run_until_current()
    command = ("reset", str(pair.replicator.pipeline), "--yes", "--lost-state")
    shutil.rmtree(state)
    for code, says in (("RPL-3514", "the source"), ("RPL-8401", "the target, where the source does not know")):
        refused = pair.replicator.run("--until-current")
        assert refused.error["code"] == code, says
        assert f"replicator reset {pair.replicator.pipeline} --lost-state" in refused.error["hint"]
        pair.database.run("DELETE FROM _replicator_facts WHERE name GLOB 'owner *'")
        shutil.rmtree(state)
    assert pair.replicator.start_command(*command).wait().status == 0
    pair.change_everything()
    pair.assert_recovered()
    shutil.rmtree(state)
    old.rename(state)
    assert pair.replicator.start_command(*command).wait().status == 0
    pair.change_rows()
    pair.assert_recovered()
