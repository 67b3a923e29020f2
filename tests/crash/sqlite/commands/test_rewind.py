"""`replicator rewind` that is killed is finished by the next run, or by the command again; the runs after it are equal.

Each kill costs a start of Java, so here are the steps at which something else is durable than before. At all of them a rewind
ends, by an error, in `tests/runtime/engine/rewind/test_rewind.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replicator_state import ReplicatorDirectory
from tests.crash.kills import killed
from tests.crash.one_process import OneProcess
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.depth import some


def offsets(pair: Pair) -> list[str]:
    """The names of those that are kept, newest first."""
    directory = ReplicatorDirectory(str(pair.replicator.state), "default", "shop")
    return [entry.name for entry in directory.offsets().history()]


POINTS = ("engine.rewind.noted", "delta.rewind.after", "engine.offset.set_back")


@pytest.mark.timeout(600)
def test_runs_after_a_kill_are_equal(make_pair: MakePair, tmp_path: Path) -> None:
    """The points are tried one after the other on one replicator, each on the way back to the same offset."""
    pair = make_pair(delta=True)
    pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "keepChangesHours": 1})
    document = pair.replicator.document()
    pair.replicator.pipeline.write_text(json.dumps(document))
    with OneProcess(tmp_path / "process", shares_java=True) as process:
        assert process.run(document) == ""
        pair.change_rows()
        assert process.run(document) == ""
        offset, then = offsets(pair)[0], [pair._copy(table) for table in ("customer", "note")]
        pair.change_rows()
        assert process.run(document) == ""
        command = ("rewind", str(pair.replicator.pipeline), "--yes", "--offset", offset)
        for point in some(POINTS, 1, name="rewind"):
            killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
            pair.change_structure()
            pair.change_rows()
            assert process.run(document) == ""
            assert pair.differences() == {}, point
            assert offset in offsets(pair)
        killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS="engine.rewind.table=kill"), "again")
        ended = pair.replicator.start_command(*command).wait()
        assert ended.status == 0, ended.messages
        assert ended.envelope["data"]["done"]
        assert [pair._copy(table) for table in ("customer", "note")] == then
        pair.assert_recovered(process)
