"""A run of an account that may not use the cache of jars ends at once with one error, and works once that is allowed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.accounts.another_account import as_another_account, give
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import COMMAND, Ended, Replicator
from tests.follows import follows
from tests.services.artifacts import delta_jars
from tests.services.processes import scratch_folder


@pytest.fixture
def shop() -> Replicator:
    """A replicator of one table that another account runs; all folders are its own, but the cache, which is root's and whole."""
    command = (*as_another_account(), *COMMAND)
    folder = scratch_folder("cache")
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE item (id integer PRIMARY KEY)")
        database.execute("INSERT INTO item VALUES (1)")
    (folder / "tmp").mkdir()
    give(folder)
    jars = _jars(folder)
    jars.mkdir(parents=True)
    for jar in delta_jars():
        shutil.copy(jar, jars)
        (jars / jar.name).chmod(0o644)
    environment = {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    return Replicator(folder, ("sqlite", {"path": str(folder / "shop.db")}), command=command, environment=environment)


def _jars(folder: Path) -> Path:
    return folder / "cache" / "replicator" / "jars"


def _closed(folder: Path) -> None:
    (folder / "cache" / "replicator").chmod(0o700)


def _one_closed(folder: Path) -> None:
    next(_jars(folder).iterdir()).chmod(0o600)


def _empty(folder: Path) -> None:
    shutil.rmtree(_jars(folder))


@pytest.mark.timeout(1200)
@follows("RPL-7215")
@pytest.mark.parametrize(
    ("close", "said"),
    [(_closed, "cannot look for"), (_one_closed, "may not read"), (_empty, "may not write")],
    ids=["closed", "one file closed", "empty"],
)
def test_a_cache_of_another_account_is_one_error_at_once_and_the_next_step_ends_it(
    shop: Replicator, close: Callable[[Path], None], said: str
) -> None:
    close(shop.folder)
    ended = shop.run("--until-current")
    assert (ended.status, ended.error["code"]) == (3, "RPL-7215"), ended.messages
    assert said in ended.error["message"]
    assert "XDG_CACHE_HOME" in ended.error["hint"]
    assert "retry" not in ended.messages

    own = shop.folder / "own"
    shutil.copytree(shop.folder / "cache", own)
    if close is _empty:
        own.joinpath("replicator/jars").mkdir()
        for jar in delta_jars():
            shutil.copy(jar, own / "replicator/jars")
    give(own)
    _assert_copied(shop, shop.run("--until-current", seconds=900, XDG_CACHE_HOME=str(own)))


def _assert_copied(shop: Replicator, ended: Ended) -> None:
    assert ended.status == 0, ended.messages
    found = [key for table in shop.lake.rglob("_delta_log") for (key,) in delta_rows(table.parent, ["id"])]
    assert found == [1]
