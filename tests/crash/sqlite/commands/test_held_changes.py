"""Changes of structure that wait for a decision lose and double nothing, whichever step of it a run is killed at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.cli.state_lookup import find_state
from replicator_runtime.observed.schema_changes import waiting_changes
from replicator_state import ReplicatorDirectory
from tests.crash import kill_points

if TYPE_CHECKING:
    from tests.crash.sqlite.conftest import MakePair
    from tests.crash.sqlite.pair import Pair

_DROPS = frozenset({"engine.drop.applied"})
_HOLDING = frozenset({"engine.hold.before_save", "engine.hold.after_save", "engine.lane.after_write"})


@pytest.fixture(scope="module")
def asking(make_pairs: MakePair) -> Pair:
    """A pair whose pipeline asks, copied, with an ALTER and rows after it that no run has read. To be copied, not to be run."""
    pair = make_pairs(name="asking")
    pair.replicator.settings = {
        **pair.replicator.settings,
        "ddlPolicies": {"addColumn": "ask", "renameColumn": "ask", "dropTable": "ask"},
    }
    pair.run_until_current()
    pair.change_everything()
    return pair


def waiting(pair: Pair) -> list[dict[str, Any]]:
    return waiting_changes(find_state("shop", "default", str(pair.replicator.state)).directory)


def approve(pair: Pair) -> None:
    requests = ReplicatorDirectory(str(pair.replicator.state), "default", "shop").requests()
    for change in waiting(pair):
        requests.submit("ddl.approve", {"changes": [change["id"]]})


def recovers(pair: Pair) -> None:
    """What waits is approved, then the pipeline asks no more."""
    for _ in range(3):
        pair.run_until_current()
        approve(pair)
    pair.run_until_current()
    assert waiting(pair) == []
    pair.replicator.settings = {key: v for key, v in pair.replicator.settings.items() if key != "ddlPolicies"}
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    pair.change_rows()
    pair.change_structure()
    pair.assert_recovered()


@pytest.mark.parametrize("point", sorted(_HOLDING))
def test_three_runs_after_a_kill_while_a_change_is_held_are_equal(
    point: str, asking: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=asking)
    pair.replicator.settings = asking.replicator.settings
    pair.kill_at(point)
    pair.change_rows()
    pair.run_until_current()
    assert [change["text"].split()[:3] for change in waiting(pair)] == [["ADD", "COLUMN", "city"]]
    recovers(pair)


@pytest.mark.parametrize("point", sorted(kill_points.OF_HOLDS - _HOLDING - _DROPS))
def test_three_runs_after_a_kill_while_an_approved_change_is_applied_are_equal(
    point: str, asking: Pair, make_pair: MakePair
) -> None:
    pair = make_pair(like=asking)
    pair.replicator.settings = asking.replicator.settings
    pair.run_until_current()
    approve(pair)
    pair.change_rows()
    pair.kill_at(point)
    recovers(pair)


def test_three_runs_after_a_kill_while_an_approved_drop_is_applied_are_equal(asking: Pair, make_pair: MakePair) -> None:
    pair = make_pair(like=asking)
    pair.replicator.settings = asking.replicator.settings
    pair.run_until_current()
    pair.database.run("DROP TABLE note")
    pair.run_until_current()
    pair.database.run("CREATE TABLE note (text TEXT)", "INSERT INTO note VALUES ('new')")
    assert "DROP TABLE" in [change["text"] for change in waiting(pair)]
    approve(pair)
    pair.kill_at("engine.drop.applied")
    recovers(pair)
