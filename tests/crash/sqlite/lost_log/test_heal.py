"""A heal that is killed lets no run go on over the gap, and the next heal does all again, also of two at once; the runs after it are equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replicator_state import ReplicatorDirectory
from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.one_process import OneProcess
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.depth import some
from tests.end_to_end.comparison import delta_rows
from tests.follows import follows
from tests.runtime.engine.archive.rebuilt import rebuilt
from tests.services.spark import kept_java

POINTS = ("engine.heal.begun", "delta.repair.after", "engine.heal.tables", "engine.heal.saved")
LOST = "RPL-3506"


def lose_log(pair: Pair) -> None:
    """Rows change, and what the changelog has of it is removed."""
    pair.change_rows(20)
    pair.database.run(
        "INSERT INTO customer (id, name) VALUES (7000, 'before the end')",
        "UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'",
        "DELETE FROM _replicator_changes WHERE id < (SELECT max(id) FROM _replicator_changes)",
        "DELETE FROM customer WHERE id = 7000",
    )


def command(pair: Pair) -> tuple[str, ...]:
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    return ("heal", str(pair.replicator.pipeline), "--yes")


def heal_twice_at_once(pair: Pair) -> None:
    """One of two heals does all; the other one is refused, or finds that nothing is lost any more."""
    with kept_java.shared():
        both = [pair.replicator.start_command(*command(pair)) for _ in range(2)]
        ended = sorted((one.wait() for one in both), key=lambda one: one.status)
    assert ended[0].status == 0, ended[0].messages
    assert ended[1].error["code"] in {"RPL-7130", "RPL-1382"}, ended[1].messages


def assert_no_number_comes_again(pair: Pair) -> None:
    """The next change gets a number above those of all rows, also of tables that were ahead of the saved offset."""
    saved = ReplicatorDirectory(str(pair.replicator.state), "default", "shop").offsets().latest()
    assert saved is not None
    for table in ("customer", "note"):
        numbers = delta_rows(pair.replicator.lake / "main" / table, ["_sequence_num"])
        assert max((number for (number,) in numbers if number is not None), default=0) <= saved.sequence_number


@follows("RPL-3506")
@pytest.mark.timeout(900)
def test_after_a_kill_at_any_step_no_run_passes_the_gap_and_another_heal_does_all(
    make_pair: MakePair, tmp_path: Path
) -> None:
    assert set(POINTS) > kill_points.OF_HEAL
    pair = make_pair(delta=True)
    archive = tmp_path / "archive"
    pair.replicator.settings = {**pair.replicator.settings, "archive": {"path": str(archive)}}
    document = pair.replicator.document()
    with OneProcess(tmp_path / "process") as process:
        assert process.run(document) == ""
        pair.change_rows(5)
        process.kill_at(document, "engine.offset.before_save")  # tables are ahead of the saved offset and its number
        for point in some(POINTS, 1, name="heal"):
            lose_log(pair)
            killed(pair.replicator.start_command(*command(pair), REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
            pair.change_rows(5)
            if point == "engine.heal.saved":
                assert process.run(document) == ""
            else:
                assert process.run(document) == LOST
                heal_twice_at_once(pair)
                assert_no_number_comes_again(pair)
            for _ in range(3):
                pair.change_rows(10)
                assert process.run(document) == "", point
                assert pair.differences() == {}, point
                pair.change_structure()
        pair.assert_recovered(process)
    assert rebuilt(archive)["customer"].rows is None  # what was lost is not in it, which it says
