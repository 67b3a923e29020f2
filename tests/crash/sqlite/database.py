"""A small SQLite database that tests change between and during kills."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from replicator_source_sqlite.capture.changelog import last_change
from replicator_source_sqlite.capture.ddl_detection import synchronise
from replicator_source_sqlite.connection import connect

TABLES = ("customer", "note")


class Database:
    """One table with a key, one without (there a change that is applied twice shows). Python's own client changes and reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the tables, with rows."""
        self.run(
            "PRAGMA journal_mode = WAL",
            "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, visits INTEGER)",
            "CREATE TABLE note (text TEXT)",
            _numbers("INSERT INTO customer SELECT n, 'name ' || n, 0 FROM numbers", 200),
            _numbers("INSERT INTO note SELECT 'note ' || n % 20 FROM numbers", 100),
        )

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database, database:
            for statement in statements:
                database.execute(statement)

    def notice(self) -> None:
        """Look for a change of structure, as a running reader does; a later reader has to log all rows changed before."""
        with connect(self.path) as database:
            synchronise(database, last_change(database))

    def change(self, chance: random.Random) -> None:
        """One random transaction: inserts, updates, deletes, a key change, equal rows."""
        key, free = chance.randint(1, 250), chance.randint(1000, 10**9)
        steps = (
            f"INSERT OR IGNORE INTO customer (id, name, visits) VALUES ({free}, 'new', 1)",
            f"UPDATE customer SET visits = visits + 1 WHERE id BETWEEN {key} AND {key + 20}",
            f"DELETE FROM customer WHERE id = {key}",
            f"UPDATE OR IGNORE customer SET id = {free} WHERE id = {key}",
            f"INSERT INTO note VALUES ('note {key % 20}'), ('note {key % 20}')",
            f"DELETE FROM note WHERE rowid = (SELECT min(rowid) FROM note WHERE text = 'note {key % 20}')",
        )
        self.run(*chance.choices(steps, k=chance.randint(1, 6)), f"INSERT INTO note VALUES ('note {key % 20}')")

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]

    def rows(self, table: str) -> Counter[tuple[Any, ...]]:
        """The rows of a table, as a bag."""
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            return Counter(database.execute(f"SELECT * FROM {table}"))


class Writer:
    """Changes the database at random from a thread, as long as the block lasts."""

    def __init__(self, database: Database, chance: random.Random, pause: float = 0.02) -> None:
        self._database, self._chance, self._pause = database, chance, pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.transactions = 0

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            self._database.change(self._chance)
            self.transactions += 1

    def wait_for(self, transactions: int) -> None:
        """Wait until so many transactions are committed."""
        deadline = time.monotonic() + 300
        while self.transactions < transactions:
            assert time.monotonic() < deadline, self.transactions
            assert self._thread.is_alive()
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)


def _numbers(statement: str, count: int) -> str:
    numbers = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
    into, _, rest = statement.partition(" SELECT ")
    return f"{into} {numbers} SELECT {rest}"
