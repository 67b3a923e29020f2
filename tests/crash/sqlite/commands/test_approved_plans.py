"""An approved plan is applied, whichever step of it a run is killed at; no later run asks for another approval."""

from __future__ import annotations

import json

import pytest

from tests.crash import kill_points
from tests.crash.kill_points import Twin
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair

_APPLIED = (
    "state.put.before",
    "state.put.between",
    "engine.snapshot.planned",
    "engine.snapshot.chunks_loaded",
    "engine.snapshot.finished",
    "file.commit.before",
)
"""Of what the run does then: the settings are stored, the table is forgotten, described and copied."""


def approved(make_pair: MakePair) -> Pair:
    """A pair whose target lacks updates that were left out; the edit that lets them in is approved, and not applied."""
    pair = make_pair()
    as_before = pair.replicator.settings
    pair.replicator.settings = {**as_before, "dmlBlacklist": ["UPDATE"]}
    pair.run_until_current()
    pair.database.run("UPDATE customer SET visits = 77", "INSERT INTO note VALUES ('more')")
    pair.run_until_current()
    assert pair.lost()["customer"]
    pair.replicator.settings = as_before
    refused = pair.replicator.run("--until-current")
    assert (refused.status, refused.error["code"]) == (6, "RPL-1260")
    plan = pair.replicator.start_command("plan", str(pair.replicator.pipeline)).wait()
    assert (plan.status, plan.error["code"]) == (6, "RPL-1260")
    plan_id = str(plan.envelope["data"]["plan"])
    assert plan_id in refused.error["message"]
    done = pair.replicator.start_command("approve", str(pair.replicator.pipeline), plan_id).wait()
    assert done.status == 0, done.messages
    return pair


@pytest.fixture(scope="module")
def approved_pair(tmp_path_factory: pytest.TempPathFactory, file_target_package: str) -> Pair:
    """To be copied (`like`), not to be run."""
    from tests.crash.sqlite import conftest

    root = tmp_path_factory.mktemp("approved")
    return approved(lambda: conftest._pair(root, file_target_package))


def copy_of(like: Pair, make_pair: MakePair) -> Pair:
    """A pair with the same database, state and target, and without the logs of its runs."""
    pair = make_pair(like=like)
    for log in pair.replicator.folder.glob("run-*.log"):
        log.unlink()
    return pair


def test_the_tables_are_copied_again_once(approved_pair: Pair, make_pair: MakePair) -> None:
    pair = copy_of(approved_pair, make_pair)
    assert "table.copied_again" in pair.run_until_current().messages
    assert pair.differences() == {}
    assert "table.copied_again" not in pair.run_until_current().messages
    assert pair.differences() == {}


@pytest.mark.parametrize("point", [*sorted(kill_points.OF_PLANS), *_APPLIED])
def test_three_runs_after_a_kill_at_any_step_are_equal(point: str, approved_pair: Pair, make_pair: MakePair) -> None:
    pair = copy_of(approved_pair, make_pair)
    pair.kill_at(point)
    pair.change_everything()
    pair.assert_recovered()


@pytest.mark.parametrize("passes", range(2, 6))
def test_three_runs_after_a_kill_beside_any_stored_value_are_equal(
    passes: int, approved_pair: Pair, make_pair: MakePair
) -> None:
    """The first is the approval, the next are the settings and the tables."""
    pair = copy_of(approved_pair, make_pair)
    point = "state.put.after"
    killed(pair.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill@{passes}"), point)
    pair.change_everything()
    pair.assert_recovered()


def test_without_what_was_accepted_the_next_run_asks_again(approved_pair: Pair, make_pair: MakePair) -> None:
    """The twin."""
    [removed] = kill_points.PARTS_OF_PLANS
    pair = copy_of(approved_pair, make_pair)
    pair.kill_at("engine.plan.after_save")
    twin = make_pair(like=pair, removed=removed, name="twin")
    twin.assert_next_run_harms(Twin(removed, "RPL-1260"))


def test_an_edit_that_is_taken_back_after_a_kill_needs_no_approval(approved_pair: Pair, make_pair: MakePair) -> None:
    pair = copy_of(approved_pair, make_pair)
    pair.kill_at("engine.plan.after_save")
    settings = pair.replicator.settings
    pair.replicator.settings = {**settings, "dmlBlacklist": ["UPDATE"]}
    pair.run_until_current()
    pair.replicator.settings = settings
    again = pair.replicator.run("--until-current")
    assert (again.status, again.error["code"]) == (6, "RPL-1260"), "the approval was of the plan that was taken back"
    assert json.dumps(again.envelope["data"]) == "null"
