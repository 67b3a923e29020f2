"""Rows that are put aside are neither lost nor doubled, whichever step of it a run is killed at."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.crash import kill_points
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.database import Database
from tests.crash.sqlite.pair import Pair
from tests.follows import follows


class Refusing(Database):
    """Some rows of `customer` have text in a column of numbers; `rows` are the others, which the target should have."""

    def change(self, chance: random.Random) -> None:
        """A random transaction; some rows get a value that is refused, some of those a good one."""
        super().change(chance)
        key, free = chance.randint(1, 220), chance.randint(1000, 10**9)
        steps = (
            f"UPDATE customer SET visits = 'many' WHERE id BETWEEN {key} AND {key + 3}",
            f"UPDATE customer SET visits = 7 WHERE typeof(visits) = 'text' AND id % 3 = {key % 3}",
            f"INSERT OR IGNORE INTO customer (id, name, visits) VALUES ({free}, 'new', 'few')",
            f"UPDATE OR IGNORE customer SET id = {free + 1} WHERE id = (SELECT min(id) FROM customer WHERE typeof(visits) = 'text')",
            "DELETE FROM customer WHERE id = (SELECT max(id) FROM customer WHERE typeof(visits) = 'text')",
        )
        self.run(*chance.choices(steps, k=3))

    def rows(self, table: str) -> Counter[tuple[Any, ...]]:
        """The rows without refused values."""
        where = " WHERE typeof(visits) <> 'text'" if table == "customer" else ""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            return Counter(database.execute(f"SELECT * FROM {table}{where}"))

    def refused(self) -> int:
        """How many rows have a refused value."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            return int(database.execute("SELECT count(*) FROM customer WHERE typeof(visits) = 'text'").fetchone()[0])


@dataclass
class RefusingPair(Pair):
    """As `Pair`; what is put aside is compared as well."""

    def differences(self) -> dict[str, int]:
        """Also says how many rows too many or too few are put aside."""
        found = super().differences()
        aside = sum(entry["rows"] for entry in listed(self))
        expected = self.database.refused()  # type: ignore[attr-defined]
        return found if aside == expected else {**found, "aside": aside - expected}


def refusing(pair: Pair) -> RefusingPair:
    settings = {**pair.replicator.settings, "onDataError": "lane"}
    replicator = replace(
        pair.replicator, settings=settings, _runs=100
    )  # whose logs are not those of the pair it is like
    return RefusingPair(Refusing(pair.database.path), replicator, pair.chance)


def listed(pair: Pair, *arguments: str) -> list[dict[str, Any]]:
    """What `dead-letters list` prints."""
    ended = pair.replicator.start_command("dead-letters", "list", str(pair.replicator.pipeline), *arguments).wait()
    assert ended.status == 0, ended.messages
    found: list[dict[str, Any]] = ended.envelope["data"]
    return found


@pytest.fixture(scope="module")
def refused(make_pairs: MakePair) -> RefusingPair:
    """A pair with rows put aside, whose database has changed since. To be copied, not to be run."""
    pair = refusing(make_pairs(name="refused"))
    pair.replicator._runs = 0
    pair.database.run("UPDATE customer SET visits = 'many' WHERE id % 50 = 0")
    pair.run_until_current()
    assert pair.differences() == {}
    pair.change_rows(12)
    return pair


@follows("RPL-1281")
def test_rows_of_a_first_copy_and_of_changes_are_put_aside_and_listed(
    refused: RefusingPair, make_pair: MakePair
) -> None:
    pair = refusing(make_pair(like=refused))
    [entry] = listed(pair)
    status = pair.replicator.start_command("status", str(pair.replicator.pipeline)).wait()
    assert status.envelope["data"]["rowsPutAside"] == [{**entry["table"], "rows": entry["rows"]}]
    assert entry["rows"] == 4
    assert {one["operation"] for one in entry["letters"]} == {"COPY"}
    assert {(*one["columns"], one["code"]) for one in entry["letters"]} == {("visits", "RPL-3510")}
    assert "many" not in str(entry)
    assert all("key" not in one and "row" not in one for one in entry["letters"])
    ended = pair.replicator.start_command("dead-letters", "list", str(pair.replicator.pipeline), "note").wait()
    assert ended.error["code"] == "RPL-1281"
    [shown] = listed(pair, "main.customer", "--show-values")
    assert {one["key"]["id"] for one in shown["letters"]} == {"50", "100", "150", "200"}
    assert shown["letters"][0]["row"]["visits"] is None
    pair.assert_recovered()
    [entry] = listed(pair)
    assert {one["operation"] for one in entry["letters"]} - {"COPY"}


@pytest.mark.parametrize("point", sorted(kill_points.OF_LETTERS))
def test_three_runs_after_a_kill_while_rows_are_put_aside_are_equal(
    point: str, refused: RefusingPair, make_pair: MakePair
) -> None:
    pair = refusing(make_pair(like=refused))
    if point == "engine.letters.removed":  # by the next batch, once there are two files
        pair.run_until_current()
        pair.change_rows()
    pair.kill_at(point)
    pair.change_rows()
    pair.assert_recovered()


@pytest.mark.parametrize("point", sorted(kill_points.OF_LETTERS_OF_COPIES))
def test_three_runs_after_a_kill_while_rows_of_a_copy_are_put_aside_are_equal(point: str, make_pair: MakePair) -> None:
    pair = refusing(make_pair())
    pair.database.run("UPDATE customer SET visits = 'many' WHERE id % 50 = 0")
    pair.kill_at(point)
    pair.change_rows()
    pair.assert_recovered()


@pytest.mark.parametrize("point", sorted(kill_points.OF_OLDER_STATES))
def test_three_runs_after_a_kill_of_the_first_run_with_an_older_state_are_equal(
    point: str, refused: RefusingPair, make_pair: MakePair, tmp_path: Path
) -> None:
    pair = refusing(make_pair(like=refused))
    state = pair.replicator.state
    shutil.copytree(state, tmp_path / "backup")
    pair.run_until_current()
    assert pair.differences() == {}
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "backup", state)
    pair.kill_at(point)
    pair.change_rows()
    pair.assert_recovered()


@follows("RPL-1280")
def test_a_replay_reads_rows_put_aside_again_as_they_are_now(refused: RefusingPair, make_pair: MakePair) -> None:
    """Also beside newer changes of the same rows, and with a column that is left out since."""
    pair = refusing(make_pair(like=refused))
    pair.run_until_current()
    pipeline = str(pair.replicator.pipeline)
    ended = pair.replicator.start_command("dead-letters", "replay", pipeline, "note", "--yes").wait()
    assert ended.error["code"] == "RPL-1280"
    ended = pair.replicator.start_command("dead-letters", "replay", pipeline, "--yes").wait()
    assert ended.status == 0, ended.messages
    assert "rows put aside" in ended.envelope["data"]["lines"][0]
    pair.change_rows()
    pair.run_until_current()
    assert pair.differences() == {}
    ended = pair.replicator.start_command("dead-letters", "replay", pipeline, "customer", "--yes").wait()
    assert ended.status == 0, ended.messages
    pair.database.run("UPDATE customer SET visits = 1 WHERE typeof(visits) = 'text'")
    pair.run_until_current()
    assert pair.differences() == {}
    assert listed(pair) == []
    ended = pair.replicator.start_command("dead-letters", "replay", pipeline, "--yes").wait()
    assert ended.error["code"] == "RPL-1280"


def test_rows_are_put_aside_into_delta(make_pair: MakePair) -> None:
    pair = refusing(make_pair(delta=True))
    pair.database.run("UPDATE customer SET visits = 'many' WHERE id % 50 = 0")
    pair.run_until_current()
    assert pair.differences() == {}
    pair.change_rows(12)
    pair.kill_at("engine.letters.written")
    pair.change_rows(12)
    pair.change_structure()
    pair.change_rows(12)
    pair.run_until_current()
    assert pair.differences() == {}
    ended = pair.replicator.start_command("verify", str(pair.replicator.pipeline), "customer").wait()
    assert ended.error["code"] == "RPL-1288", ended.messages
