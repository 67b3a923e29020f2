"""`replicator delete` that is killed lets no run begin, and the next `delete` does the rest; a replicator of the name begins from nothing."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from tests.crash import kill_points
from tests.crash.kills import killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.pair import Pair
from tests.end_to_end.replicator import Ended


def command(pair: Pair, *more: str) -> tuple[str, ...]:
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    return ("delete", str(pair.replicator.pipeline), "--target-tables", "--yes", *more)


def deleted(pair: Pair) -> Ended:
    ended = pair.replicator.start_command(*command(pair)).wait()
    assert ended.status == 0, ended.messages
    return ended


def ours(pair: Pair) -> list[str]:
    """What the replicator has in the database."""
    with closing(sqlite3.connect(pair.database.path)) as database:
        return [
            name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE name LIKE '\\_rep%' ESCAPE '\\'")
        ]


def assert_nothing_is_left(pair: Pair) -> None:
    assert ours(pair) == []
    assert not (pair.replicator.state / "default" / "shop").exists()
    assert pair.doubled() == {"customer": 0, "note": 0}
    assert sum(pair.lost().values()) > 0


@pytest.mark.parametrize("point", sorted(kill_points.OF_DELETE))
def test_after_a_kill_no_run_begins_and_another_delete_does_the_rest(point: str, make_pair: MakePair) -> None:
    pair = make_pair()
    pair.run_until_current()
    killed(pair.replicator.start_command(*command(pair), REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    refused = pair.replicator.run("--until-current")
    assert (refused.status, refused.error["code"]) == (3, "RPL-1240"), refused.messages
    assert "replicator delete" in refused.error["hint"]
    deleted(pair)
    assert_nothing_is_left(pair)
    again = pair.replicator.start_command(*command(pair)).wait()
    assert (again.status, again.error["code"]) == (3, "RPL-1242")
    pair.change_rows()
    pair.assert_recovered()


def test_a_run_whose_lease_lapsed_finds_itself_deleted_and_leaves_nothing(make_pair: MakePair) -> None:
    pair = make_pair()
    running = pair.start()
    deadline = time.monotonic() + 180
    while not ours(pair) or any(pair.lost().values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    refused = pair.replicator.start_command(*command(pair)).wait()
    assert (refused.status, refused.error["code"]) == (3, "RPL-7130")
    running.process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 180
    while (ended := pair.replicator.start_command(*command(pair)).wait()).status:
        assert ended.error["code"] == "RPL-7130"
        assert time.monotonic() < deadline
        time.sleep(1)
    assert_nothing_is_left(pair)
    running.process.send_signal(signal.SIGCONT)
    assert running.wait().error["code"] == "RPL-7131"
    assert_nothing_is_left(pair)
