"""`replicator table`, as an operator gives it, beside a run and without one: real sources, Delta, and a reader of its own."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source, postgres_source
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MYSQL_9

Rows = Sequence[tuple[Any, ...]]
_TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, name varchar(20))",
    "CREATE TABLE note (id int PRIMARY KEY, name varchar(20))",
)


@dataclass
class Shop:
    """Two tables at a source, and their replicator.

    Attributes:
        folder: Of the tables in the lake.
        execute: Runs statements at the source.
        rows: The rows of a table at the source.
    """

    replicator: Replicator
    folder: str
    execute: Callable[..., object]
    rows: Callable[[str], Rows]

    def begin(self) -> None:
        """Make the tables, with some rows."""
        self.execute(*_TABLES)
        for table in ("item", "note"):
            self.execute(*(f"INSERT INTO {table} VALUES ({n}, 'row {n}')" for n in range(50)))

    def damage(self) -> None:
        """Another program takes all files out of the lake's table."""
        log = self._path("item") / "_delta_log"
        files = _files(log)
        removed = [{"remove": {**file, "deletionTimestamp": 1, "dataChange": True}} for file in files]
        with (log / f"{len(list(log.glob('*.json'))):020}.json").open("x") as commit:
            commit.write("\n".join(map(json.dumps, removed)))
        assert self.differs("item")

    def differs(self, *tables: str) -> list[str]:
        """Of these tables those that are not equal."""
        return [name for name in tables if Counter(self.rows(name)) != Counter(self.copied(name))]

    def wait_until_equal(self) -> None:
        """Wait for a run that goes on."""
        deadline = time.monotonic() + 90
        while found := self.differs("item", "note"):
            assert time.monotonic() < deadline, found
            time.sleep(0.3)

    def ask(self, *arguments: str) -> list[str]:
        """`replicator table …`; what it says was done."""
        command, *more = arguments
        ended = self.replicator.start_command("table", command, str(self.replicator.pipeline), *more).wait()
        assert ended.status == 0, ended.messages
        assert ended.envelope["data"]["state"] == "done"
        lines: list[str] = ended.envelope["data"]["lines"]
        return lines

    def _path(self, table: str) -> Path:
        return self.replicator.lake / self.folder / table

    def copied(self, table: str, *more: str) -> Rows:
        """The rows of a table in the lake, with further columns."""
        if not DeltaTable.is_deltatable(str(self._path(table))):
            return []
        return list(delta_rows(self._path(table), ["id", "name", *more]))


def _files(log: Path) -> list[dict[str, Any]]:
    """What names each file that a table has: its path, and its deletion vector, if any."""
    there: dict[str, dict[str, Any]] = {}
    for commit in sorted(log.glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            there.pop(action.get("remove", {}).get("path", ""), None)
        added = (action["add"] for action in actions if "add" in action)
        there |= {file["path"]: {k: file[k] for k in ("path", "deletionVector") if k in file} for file in added}
    return list(there.values())


_SETTINGS = {"batch": {"maxIntervalSeconds": 0.2}}


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Shop:
    path = tmp_path / "shop.db"

    def run(*statements: str) -> list[Any]:
        with sqlite3.connect(path, timeout=30) as database:
            found = [database.execute(statement).fetchall() for statement in statements]
        database.close()
        return found[-1]

    run("PRAGMA journal_mode=WAL")
    replicator = Replicator(tmp_path, ("sqlite", {"path": str(path)}), settings=_SETTINGS)
    return Shop(replicator, "main", run, lambda table: run(f"SELECT id, name FROM {table}"))


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    if request.param == "sqlite":
        found: Shop = request.getfixturevalue("sqlite_shop")
        return found
    return _on_server(request, request.param, tmp_path)


@pytest.fixture
def postgres_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return _on_server(request, "postgres", tmp_path)


def _on_server(request: pytest.FixtureRequest, kind: str, folder: Path) -> Shop:
    database = request.getfixturevalue(f"{kind}_database")
    is_postgres = kind == "postgres"
    source = postgres_source(database) if is_postgres else mysql_source(database.server)
    named = [{"database": database.name, "table": table} for table in ("item", "note")]
    read = database.execute if is_postgres else database.query

    def execute(*statements: str) -> None:
        for statement in statements:
            database.execute(statement)

    return Shop(
        Replicator(folder, source, settings={**_SETTINGS, "tables": named}),
        "public" if is_postgres else database.name,
        execute,
        lambda table: read(f"SELECT id, name FROM {table}"),
    )


def test_a_damaged_table_is_copied_again_beside_a_run_and_without_one(shop: Shop) -> None:
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_equal()
    shop.damage()
    assert shop.ask("resync", "item", "--in-place", "--yes") == [
        f"{shop.folder}.item will be copied again by the run that goes on, once it finds it at the source"
    ]
    shop.execute("INSERT INTO item (id, name) VALUES (100, 'beside')", "UPDATE note SET name = 'beside' WHERE id = 1")
    shop.wait_until_equal()
    shop.execute("DELETE FROM item WHERE id = 100", "ALTER TABLE note ADD extra int", "DELETE FROM note WHERE id = 2")
    shop.wait_until_equal()
    assert running.stop().status == 143
    shop.damage()
    assert shop.ask("resync", f"{shop.folder}.item", "--in-place", "--yes") == [
        f"{shop.folder}.item will be copied again by the next run that finds it at the source"
    ]
    for number in range(3):
        shop.execute(
            f"INSERT INTO item (id, name) VALUES ({200 + number}, 'later')", f"ALTER TABLE item ADD extra_{number} int"
        )
        shop.replicator.until_current()
        assert shop.differs("item", "note") == []


def test_a_setting_that_needs_other_columns_is_followed_by_a_copy_as_the_hint_says(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.begin()
    shop.replicator.until_current()
    shop.replicator.lake_settings = {"softDeletes": True}
    shop.replicator.settings = {**shop.replicator.settings, "edits": "apply"}
    shop.execute("INSERT INTO item VALUES (100, 'after')", "DELETE FROM item WHERE id = 1")
    ended = shop.replicator.run("--until-current")
    assert ended.error["code"] == "RPL-6405"
    assert "replicator table resync" in ended.error["hint"]
    shop.ask("resync", "item", "note", "--in-place", "--yes")
    for number in range(3):
        shop.execute(
            f"INSERT INTO note (id, name) VALUES ({100 + number}, 'later')", f"ALTER TABLE note ADD extra_{number} int"
        )
        shop.execute(f"DELETE FROM item WHERE id = {10 + number}")
        shop.replicator.until_current()
        kept = shop.copied("item", "_is_deleted")
        assert Counter(row[:2] for row in kept if not row[2]) == Counter(shop.rows("item"))
        assert sorted(row[0] for row in kept if row[2]) == [
            10 + deleted for deleted in range(1, number + 1)
        ]  # the first before the copy


def _lose_log_of_sqlite(shop: Shop) -> None:
    shop.execute(
        "UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'",
        "DELETE FROM _replicator_changes WHERE id < (SELECT max(id) FROM _replicator_changes)",
    )


def _lose_log_of_postgres(shop: Shop) -> None:
    shop.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )


def _lose_log_of_mysql(shop: Shop) -> None:
    shop.execute("RESET BINARY LOGS AND GTIDS")


@pytest.fixture
def mysql_shop(mysql_server: PrivateMysql, tmp_path: Path) -> Iterator[Shop]:
    """On a server of its own, whose logs may be lost."""
    with mysql_server(MYSQL_9, gtid=True).database() as database:

        def execute(*statements: str) -> None:
            for statement in statements:
                database.execute(statement)

        named = [{"database": database.name, "table": table} for table in ("item", "note")]
        replicator = Replicator(tmp_path, mysql_source(database.server), settings={**_SETTINGS, "tables": named})
        yield Shop(replicator, database.name, execute, lambda table: database.query(f"SELECT id, name FROM {table}"))


_LOSES = {"sqlite": _lose_log_of_sqlite, "postgres": _lose_log_of_postgres, "mysql": _lose_log_of_mysql}


@pytest.mark.parametrize("source", _LOSES)
def test_after_a_lost_log_everything_is_copied_again_as_the_hint_says(
    source: str, request: pytest.FixtureRequest
) -> None:
    shop: Shop = request.getfixturevalue(f"{source}_shop")
    shop.begin()
    shop.replicator.until_current()
    shop.execute("INSERT INTO item VALUES (100, 'gap')", "UPDATE item SET name = 'gap' WHERE id = 1")
    shop.execute("DELETE FROM note WHERE id < 5")
    _LOSES[source](shop)
    ended = shop.replicator.run("--until-current")
    assert ended.status == 7, ended.messages
    assert "replicator reset" in ended.error["hint"]
    begun = shop.replicator.start_command("reset", str(shop.replicator.pipeline), "--yes").wait()
    assert begun.envelope["data"] == {"generation": 2}, begun.messages
    for number in range(3):
        shop.execute(f"INSERT INTO item (id, name) VALUES ({200 + number}, 'later')", "DELETE FROM note WHERE id = 40")
        shop.execute(f"ALTER TABLE note ADD extra_{number} int")
        shop.replicator.until_current()
        assert shop.differs("item", "note") == []
