"""A start that is killed while it notes whose state reads the database is followed by three runs that go on, and by a deletion."""

from __future__ import annotations

from tests.crash.kill_points import OF_READER
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.database import Database
from tests.crash.sqlite.pair import Pair
from tests.follows import follows

_ELSEWHERE = "RPL-3514"


def refused(pair: Pair, database: Database, name: str, make_pair: MakePair) -> None:
    """Another replicator of the pair's name, with its state and target elsewhere, is refused, and copies nothing."""
    other = make_pair(name=name).replicator
    other.source = ("sqlite", {"path": str(database.path)})
    ended = other.run("--until-current")
    assert (ended.status, ended.error["code"]) == (3, _ELSEWHERE), ended.messages[-2000:]
    assert not (other.folder / "target").exists()


def test_three_runs_after_kills_of_a_first_start_are_equal_and_the_reader_stays_its_own(make_pair: MakePair) -> None:
    for number, point in enumerate(sorted(OF_READER)):
        pair = make_pair(name=f"pair{number}")
        pair.kill_at(point)
        pair.change_everything()
        pair.kill_at("state.offset.before_write")
        if point == "sqlite.reader.noted":
            refused(pair, pair.database, f"early{number}", make_pair)
        pair.assert_recovered()
        refused(pair, pair.database, f"late{number}", make_pair)
        pair.change_rows()
        pair.run_until_current()
        assert pair.differences() == {}


@follows("RPL-3514")
def test_a_start_killed_before_its_note_leaves_the_database_to_the_one_that_noted_first(make_pair: MakePair) -> None:
    """The killed start's state has a token that is in no database; it is refused like any other until it is reset."""
    pair = make_pair()
    pair.kill_at("sqlite.reader.stored")
    other = make_pair(name="other")
    other.database, other.replicator.source = pair.database, pair.replicator.source
    other.run_until_current()
    for _ in range(3):
        other.change_rows()
        other.change_structure()
        ended = pair.replicator.run("--until-current")
        assert (ended.status, ended.error["code"]) == (3, _ELSEWHERE)
        other.run_until_current()
        assert other.differences() == {}
    command = ("reset", str(pair.replicator.pipeline), "--lost-state", "--yes")
    assert pair.replicator.start_command(*command).wait().status == 0
    pair.run_until_current()
    assert pair.differences() == {}
    assert other.replicator.run("--until-current").error["code"] == _ELSEWHERE
