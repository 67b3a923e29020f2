"""A request of an operator is done, whichever step of it a run or a command is killed at; rows are neither lost nor doubled."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pytest

from replicator_state import OutcomeState, ReplicatorDirectory, RequestFolder
from tests.crash import kill_points
from tests.crash.command import COMMAND as WITHOUT
from tests.crash.kill_points import Twin
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import COMMAND

_BY = ("run", "command")


def damaged(make_pair: MakePair) -> Pair:
    """A pair that was equal, and whose target has lost the customers."""
    pair = make_pair()
    pair.run_until_current()
    path = pair.replicator.folder / "target"
    tables = pickle.loads(path.read_bytes())
    next(kept for table, kept in tables.items() if table.table == "customer").rows = Counter()
    path.write_bytes(pickle.dumps(tables))
    assert pair.lost()["customer"]
    return pair


def requests(pair: Pair) -> RequestFolder:
    return ReplicatorDirectory(str(pair.replicator.state), "default", "shop").requests()


def ask_and_kill(pair: Pair, by: str, point: str) -> str:
    """Ask for a new copy of the customers, and kill whoever carries it out at `point`."""
    if by == "command":
        pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
        arguments = ("table", "resync", str(pair.replicator.pipeline), "customer", "--in-place", "--yes")
        running = pair.replicator.start_command(*arguments, REPLICATOR_FAILPOINTS=f"{point}=kill")
        killed(running, point)
        [request_id] = [entry.request_id for entry in requests(pair).history()]
        return request_id
    request = requests(pair).submit("table.resync", {"tables": ["customer"], "inPlace": True})
    pair.kill_at(point)
    return request.request_id


@pytest.mark.parametrize("by", _BY)
@pytest.mark.parametrize("point", sorted(kill_points.OF_REQUESTS))
def test_three_runs_after_a_kill_at_any_step_of_a_request_are_equal(point: str, by: str, make_pair: MakePair) -> None:
    pair = damaged(make_pair)
    request_id = ask_and_kill(pair, by, point)
    pair.change_everything()
    pair.assert_recovered()
    outcome = requests(pair).outcome(request_id)
    assert outcome is not None
    assert outcome.state is OutcomeState.DONE


@pytest.mark.parametrize("by", _BY)
def test_an_outcome_before_its_work_loses_the_request(by: str, make_pair: MakePair) -> None:
    """The twin."""
    [removed] = kill_points.PARTS_OF_REQUESTS
    pair = damaged(make_pair)
    pair.replicator.command = (*WITHOUT, removed)
    ask_and_kill(pair, by, "engine.request.carried_out")
    pair.replicator.command = COMMAND
    pair.assert_next_run_harms(Twin(removed, "lost"))
