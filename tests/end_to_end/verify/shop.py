"""A shop whose tables are written all the time, and its copy in a lake that another program damages."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.replicator import Ended, Replicator, mysql_source, postgres_source
from tests.end_to_end.verify.damage import damage

TABLES = ("item", "part", "visit")
_CREATE = (
    "CREATE TABLE item (id integer PRIMARY KEY, name varchar(20), price decimal(10,2))",
    "CREATE TABLE part (a int NOT NULL, b varchar(20) NOT NULL, n int, PRIMARY KEY (a, b))",
    "CREATE TABLE visit (who int, page varchar(20))",
)
HOT = 50
"""Rows below this number are written all the time, the others never."""
_SETTINGS = {"batch": {"maxIntervalSeconds": 1}}
_BETWEEN_WRITES = 0.3
"""Often enough for changes within each of a comparison's readings; with more the run is only later."""


@dataclass
class Shop:
    """Three tables, one without a key, and their replicator.

    Attributes:
        folder: Of the tables in the lake.
        execute: Runs statements at the source.
        prepare: What the source needs for a table without a key.
    """

    replicator: Replicator
    folder: str
    execute: Callable[..., object]
    prepare: Sequence[str] = ()

    def begin(self) -> None:
        """Make the tables, with some rows."""
        rows = range(200)
        self.execute(
            *_CREATE,
            *self.prepare,
            "INSERT INTO item VALUES " + ", ".join(f"({n}, 'row {n}', {n}.25)" for n in rows),
            "INSERT INTO part VALUES " + ", ".join(f"({n % 7}, 'b{n}', {n})" for n in rows),
            "INSERT INTO visit VALUES "
            + ", ".join(f"({n % 10}, {'NULL' if n % 3 else repr(str(n % 4))})" for n in rows),
        )

    @contextmanager
    def written(self) -> Iterator[None]:
        """Change the hot rows all the time: rows go back to what they were, disappear and return; a bag grows."""
        stop, errors = threading.Event(), list[BaseException]()

        def write() -> None:
            chance, number = random.Random(7), 1000
            while not stop.is_set():
                number += 1
                key = chance.randrange(HOT)
                try:
                    self.execute(
                        f"UPDATE item SET name = 'row {chance.randrange(3)}' WHERE id = {key}",
                        f"DELETE FROM item WHERE id = {key + HOT * 10}",
                        f"INSERT INTO item VALUES ({key + HOT * 10}, 'new {number}', NULL)",
                        f"UPDATE part SET n = {chance.randrange(3)} WHERE a = {key % 7} AND b = 'b{key}'",
                        f"INSERT INTO visit VALUES ({number}, 'later')",
                    )
                except BaseException as error:
                    errors.append(error)
                    raise
                stop.wait(_BETWEEN_WRITES)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            stop.set()
            writer.join()
        assert errors == []

    def verify(self, *arguments: str) -> Ended:
        """`replicator verify`, which may take minutes beside other tests: Spark begins cold, here and in the run that repairs."""
        return self.replicator.start_command("verify", str(self.replicator.pipeline), *arguments).wait(900)

    def wait_until_replicating(self) -> None:
        """Wait until a run that goes on has copied all tables."""

        def ready() -> bool:
            shown = self.replicator.start_command("status", str(self.replicator.pipeline)).wait()
            tables = (shown.envelope.get("data") or {}).get("tables", [])
            return len(tables) == len(TABLES) and all(table["state"] == "REPLICATING" for table in tables)

        deadline = time.monotonic() + 300
        while not ready():
            assert time.monotonic() < deadline
            time.sleep(2)

    def damage(self, table: str, *statements: str) -> None:
        """Another program writes to the table in the lake, which `{}` names."""
        damage(self.replicator.lake / self.folder / table, statements)


def compared(ended: Ended) -> dict[str, Mapping[str, Any]]:
    """What was found of each table, by its name."""
    assert ended.envelope.get("data"), ended.messages
    return {table["table"]: table for table in ended.envelope["data"]["tables"]}


def counts(table: Mapping[str, Any]) -> Sequence[int]:
    """How many rows are missing, surplus and different."""
    return tuple(table[name] for name in ("missing", "surplus", "different"))


def sqlite_shop(folder: Path, **settings: Any) -> Shop:
    """On a SQLite file."""
    path = folder / "shop.db"

    def run(*statements: str) -> None:
        with sqlite3.connect(path, timeout=60) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    run("PRAGMA journal_mode=WAL")
    replicator = Replicator(folder, ("sqlite", {"path": str(path)}), settings={**_SETTINGS, **settings})
    return Shop(replicator, "main", run)


def server_shop(request: pytest.FixtureRequest, kind: str, folder: Path) -> Shop:
    """On a database of a server."""
    database = request.getfixturevalue(f"{kind}_database")
    is_postgres = kind == "postgres"
    source = postgres_source(database) if is_postgres else mysql_source(database.server)
    named = [{"database": database.name, "table": table} for table in TABLES]

    def execute(*statements: str) -> None:
        for statement in statements:
            database.execute(statement)

    replicator = Replicator(folder, source, settings={**_SETTINGS, "tables": named})
    if is_postgres:
        return Shop(replicator, "public", execute, ("ALTER TABLE visit REPLICA IDENTITY FULL",))
    return Shop(replicator, database.name, execute)
