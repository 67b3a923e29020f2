"""A seeded mix of transactions at a real database, counted by what the database says that each statement changed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from contextlib import closing
from typing import Self

from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase

Counts = Counter[tuple[str, str]]
TABLES = ("item", "entry")
_CREATE = (
    "CREATE TABLE item (id int PRIMARY KEY, name varchar(60), visits int)",
    "CREATE TABLE entry (level int, name varchar(60))",  # no key
)
COPIED = 1000


class CountedChanges:
    """Changes two tables in a thread until it is stopped; safe from any thread.

    Args:
        database: Where the tables are made.
        seed: Of all that is random.
        moves_are_two: Whether a row that gets another key counts as a deletion and an insertion, as connectors write it.
    """

    def __init__(self, database: PostgresDatabase | MysqlDatabase, seed: int, *, moves_are_two: bool = False) -> None:
        self._database, self._chance = database, random.Random(seed)
        self._of_moves = ("delete", "insert") if moves_are_two else ("update",)
        self._made: Counts = Counter()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._write, name="counted-changes")
        self._columns = self._transactions = self._key = 0
        self._error: BaseException | None = None
        for statement in _CREATE:
            database.execute(statement)
        if isinstance(database, PostgresDatabase):
            database.execute("ALTER TABLE entry REPLICA IDENTITY FULL")
        rows = range(1, COPIED + 1)
        database.execute("INSERT INTO item VALUES " + ", ".join(f"({row}, 'copied', 0)" for row in rows))
        database.execute("INSERT INTO entry VALUES " + ", ".join(f"({row % 9}, 'copied')" for row in rows))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        if self._error is not None:
            raise self._error

    @property
    def made(self) -> Counts:
        """(Table, operation) → how many changes are committed."""
        if self._error is not None:
            raise self._error
        with self._lock:
            return self._made.copy()

    def _write(self) -> None:
        try:
            with closing(self._database.connect()) as connection:
                while not self._stop.wait(self._chance.random() * 0.4):
                    self._transaction(connection)
        except BaseException as error:  # noqa: BLE001 - raised at the end of the block
            self._error = error

    def _transaction(self, connection: object) -> None:
        chance, changed = self._chance, Counts()
        assert hasattr(connection, "cursor")
        with closing(connection.cursor()) as cursor:
            cursor.execute("BEGIN")
            for kind, statement in self._statements():
                cursor.execute(statement)
                for operation in self._of_moves if kind[1] == "move" else (kind[1],):
                    changed[kind[0], operation] += 1 if operation == "ddl" else cursor.rowcount
            is_whole = chance.random() > 0.1 or any(operation == "ddl" for _, operation in changed)
            with self._lock:  # so that no one looks at what was made between the two
                cursor.execute("COMMIT" if is_whole else "ROLLBACK")
                if is_whole:
                    self._made += changed

    def _statements(self) -> list[tuple[tuple[str, str], str]]:
        """Those of one transaction: each (table, operation) and its text. A change of structure now and then, and a row that shows it."""
        chance = self._chance
        self._transactions += 1
        if self._transactions % 20 == 0:
            self._columns += 1
            column = f"ALTER TABLE item ADD COLUMN later_{self._columns} int"
            return [(("item", "ddl"), column), (("item", "insert"), self._insert("item"))]
        level, key = chance.randint(0, 9), chance.randint(1, COPIED)
        choices = (
            (("item", "insert"), self._insert("item")),
            (("item", "update"), f"UPDATE item SET visits = visits + 1 WHERE id % {chance.randint(20, 90)} = 0"),
            (("item", "move"), f"UPDATE item SET id = id + {10**8} WHERE id = {key}"),
            (("item", "delete"), f"DELETE FROM item WHERE id BETWEEN {key} AND {key + 3}"),
            (("entry", "insert"), self._insert("entry")),
            (("entry", "update"), f"UPDATE entry SET name = 'of {self._transactions}' WHERE level = {level}"),
            (("entry", "delete"), f"DELETE FROM entry WHERE name = 'new {chance.randint(1, 20)}'"),
        )
        return chance.sample(choices, chance.choice((1, 1, 2, 4)))

    def _insert(self, table: str) -> str:
        rows = []
        for _ in range(self._chance.randint(1, 5)):
            self._key += 1
            key = 10**6 + self._key
            rows.append(f"({key}, 'new', 0)" if table == "item" else f"({key % 9}, 'new {key % 20}')")
        columns = "(id, name, visits)" if table == "item" else "(level, name)"
        return f"INSERT INTO {table} {columns} VALUES {', '.join(rows)}"
