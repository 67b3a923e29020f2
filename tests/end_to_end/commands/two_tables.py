"""Two tables at a real source and their replicator into Delta, for tests of what an operator does."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source, postgres_source

Rows = Sequence[tuple[Any, ...]]
# In SQLite the first has no key that a target could use: it may be NULL there.
_TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, name varchar(20))",
    "CREATE TABLE note (id int NOT NULL PRIMARY KEY, name varchar(20))",
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
        files = files_of(log)
        removed = [{"remove": {**file, "deletionTimestamp": 1, "dataChange": True}} for file in files]
        with (log / f"{len(list(log.glob('*.json'))):020}.json").open("x") as commit:
            commit.write("\n".join(map(json.dumps, removed)))
        assert self.differs("item")

    def differs(self, *tables: str) -> list[str]:
        """Of these tables those that are not equal."""
        return [name for name in tables if Counter(self.rows(name)) != Counter(self.copied(name))]

    def wait_until_equal(self) -> None:
        """Wait for a run that goes on."""
        deadline = time.monotonic() + 180
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


def files_of(log: Path) -> list[dict[str, Any]]:
    """What names each file that a table has: its path, and its deletion vector, if any."""
    there: dict[str, dict[str, Any]] = {}
    for commit in sorted(log.glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            there.pop(action.get("remove", {}).get("path", ""), None)
        added = (action["add"] for action in actions if "add" in action)
        there |= {file["path"]: {k: file[k] for k in ("path", "deletionVector") if k in file} for file in added}
    return list(there.values())


def put_back(away: Path, table: Path) -> None:
    """Move a table's folder back to its place, also while a run goes on, which may make files there at any moment."""
    for number in itertools.count():
        try:
            away.rename(table)
        except OSError:  # the place is not empty
            table.rename(away.with_name(f"{away.name} made meanwhile {number}"))
        else:
            return


SETTINGS = {"batch": {"maxIntervalSeconds": 0.2}}


def two_tables(request: pytest.FixtureRequest, kind: str, folder: Path) -> Shop:
    """At a SQLite file, or in a database of the tests' PostgreSQL or MySQL."""
    return _in_file(folder) if kind == "sqlite" else _on_server(request, kind, folder)


def _in_file(folder: Path) -> Shop:
    path = folder / "shop.db"

    def run(*statements: str) -> list[Any]:
        with sqlite3.connect(path, timeout=30) as database:
            found = [database.execute(statement).fetchall() for statement in statements]
        database.close()
        return found[-1]

    run("PRAGMA journal_mode=WAL")
    replicator = Replicator(folder, ("sqlite", {"path": str(path)}), settings=SETTINGS)
    return Shop(replicator, "main", run, lambda table: run(f"SELECT id, name FROM {table}"))


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
        Replicator(folder, source, settings={**SETTINGS, "tables": named}),
        "public" if is_postgres else database.name,
        execute,
        lambda table: read(f"SELECT id, name FROM {table}"),
    )
