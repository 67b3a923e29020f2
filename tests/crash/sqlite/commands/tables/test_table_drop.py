"""`replicator table drop` that is killed at any step, by a command or a run, is finished by the next process that has the lease."""

from __future__ import annotations

import json
import pickle

import pytest

from replicator_state import OutcomeState, ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair

_WITHOUT_NOTES = [{"table": "*"}, {"table": "note", "exclude": True}]


def has_notes(pair: Pair) -> bool:
    path = pair.replicator.folder / "target"
    return any(table.table == "note" for table in pickle.loads(path.read_bytes()))


@pytest.mark.parametrize("by", ["run", "command"])
@pytest.mark.parametrize("point", sorted(kill_points.OF_DROP))
def test_a_killed_drop_is_finished_and_the_table_is_copied_when_it_is_selected_again(
    point: str, by: str, make_pair: MakePair
) -> None:
    pair = make_pair()
    pair.run_until_current()
    settings = pair.replicator.settings
    pair.replicator.settings = {**settings, "tables": _WITHOUT_NOTES, "edits": "apply"}
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    requests = ReplicatorDirectory(str(pair.replicator.state), "default", "shop").requests()
    if by == "run":
        requests.submit("table.drop", {"tables": ["note"]})
        pair.kill_at(point)
    else:
        command = ("table", "drop", str(pair.replicator.pipeline), "note", "--yes")
        killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    pair.change_rows()
    pair.run_until_current()
    assert not has_notes(pair)
    assert pair.lost()["customer"] + pair.doubled()["customer"] == 0
    [entry] = requests.history()
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.DONE
    pair.replicator.settings = {**settings, "edits": "apply"}
    pair.change_everything()
    pair.assert_recovered()
