"""Tables of the lake that another program deletes while a run goes on: none comes back with only what changed since."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.commands.two_tables import put_back
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator

TABLES = ("a", "b", "c", "d", "e")


@pytest.fixture
def shop(tmp_path: Path) -> Replicator:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        for table in TABLES:
            database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)")
            database.executemany(f"INSERT INTO {table} VALUES (?, 'row')", [(n,) for n in range(20)])
    database.close()
    return Replicator(tmp_path, ("sqlite", {"path": str(path)}), settings={"batch": {"maxIntervalSeconds": 0.2}})


def execute(shop: Replicator, statement: str) -> None:
    with sqlite3.connect(shop.folder / "shop.db", timeout=30) as database:
        for table in TABLES:
            database.execute(statement.format(table))
    database.close()


def lake(shop: Replicator, table: str) -> Path:
    return shop.lake / "main" / table


def rows(shop: Replicator, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(shop.folder / "shop.db", timeout=30) as database:
        found = database.execute(f"SELECT id, name FROM {table}").fetchall()
    database.close()
    return sorted(found)


def equal(shop: Replicator, *tables: str) -> bool:
    return all(sorted(delta_rows(lake(shop, table), ["id", "name"])) == rows(shop, table) for table in tables)


def errors(shop: Replicator) -> dict[str, str]:
    """The code of each failing table, as the run has written it."""
    [file] = shop.state.glob("default/shop/*/state.json")
    status = json.loads(file.read_text())
    return {t["table"].rpartition(".")[2]: t["error"]["code"] for t in status["tables"] if t["state"] == "FAILING"}


def wait(until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 200
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.timeout(800)
def test_deleted_tables_fail_and_none_comes_back_with_only_later_rows(shop: Replicator) -> None:
    running = shop.start()
    wait(lambda: equal(shop, *TABLES))
    gone, moved = TABLES[:3], TABLES[3]
    for table in gone:
        shutil.rmtree(lake(shop, table))
    lake(shop, moved).rename(shop.folder / "moved")
    for number in range(5):  # each error of a table begins another attempt, with consumers that know nothing
        execute(shop, f"INSERT INTO {{}} VALUES ({100 + number}, 'later')")
        time.sleep(1)
    execute(shop, "ALTER TABLE {} ADD COLUMN more TEXT")
    wait(lambda: set(errors(shop).values()) == {"RPL-4101"} and set(errors(shop)) == {*gone, moved})
    assert not [table for table in (*gone, moved) if lake(shop, table).exists()]
    wait(lambda: equal(shop, "e"))
    put_back(shop.folder / "moved", lake(shop, moved))
    command = ("table", "retry", str(shop.pipeline), moved)
    assert shop.start_command(*command).wait().status == 0
    wait(lambda: equal(shop, moved))
    again = ("table", "resync", str(shop.pipeline), *gone, "--in-place", "--yes")
    assert shop.start_command(*again).wait().status == 0
    wait(lambda: equal(shop, *TABLES))
    assert running.stop().status == 143
    for number in range(3):
        execute(shop, f"DELETE FROM {{}} WHERE id = {number}")
        execute(shop, f"ALTER TABLE {{}} ADD COLUMN c{number} TEXT")
        shop.until_current()
        assert equal(shop, *TABLES)
