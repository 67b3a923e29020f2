"""The worked examples of docs/seeds.md#001-replicator, and cases in which its own queries would lose or double a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.end_to_end.mysql.database.comparison import Copy
from tests.services.mysql.server import MysqlDatabase

Transaction = Sequence[str]

CREATE = (
    "CREATE TABLE seed_keyed (id int, name varchar(50), PRIMARY KEY (id))",
    "CREATE TABLE seed_keyless (name varchar(50))",
    "CREATE TABLE seed_moves (id int, name varchar(50), PRIMARY KEY (id))",
    "CREATE TABLE seed_equal (name varchar(50), note varchar(50))",
    "CREATE TABLE seed_transactions (id int, name varchar(50), PRIMARY KEY (id))",
)
# Rows that are there before the pipeline begins: what the seed's queries do wrong shows on rows of an earlier batch.
BEFORE = (
    "INSERT INTO seed_moves VALUES (0, 'alice'), (11, 'one'), (12, 'two'), (21, 'old')",
    "INSERT INTO seed_equal VALUES ('alice', NULL), ('alice', NULL), (NULL, NULL), (NULL, NULL)",
)
TRANSACTIONS: Sequence[Transaction] = (
    # "With Primary Key"
    ("INSERT INTO seed_keyed (id, name) VALUES (0, 'alice')",),
    ("UPDATE seed_keyed SET id=1 WHERE id=0",),
    ("UPDATE seed_keyed SET id=2 WHERE id=1",),
    ("DELETE FROM seed_keyed WHERE id=2",),
    ("INSERT INTO seed_keyed (id, name) VALUES (0, 'Alice'), (1, 'blob')",),
    ("UPDATE seed_keyed SET name='Bob' WHERE id='1'",),
    # "Without Primary Key"; the seed's DELETE names 'alice', its events are those of 'Alice'
    ("INSERT INTO seed_keyless (name) VALUES ('alice'), ('alice'), ('Bob')",),
    ("UPDATE seed_keyless SET name = 'Alyce' WHERE name = 'alice'",),
    ("UPDATE seed_keyless SET name = 'Alice' WHERE name = 'Alyce'",),
    ("DELETE FROM seed_keyless WHERE name = 'Alice'",),
    # "Transactions": tx123, tx456
    (
        "INSERT INTO seed_transactions (id, name) VALUES (0, 'alice'), (1, 'bob')",
        "UPDATE seed_transactions SET name = 'Alice' WHERE id = 0",
        "UPDATE seed_transactions SET name = 'Bob' WHERE id = 1",
    ),
    (
        "DELETE FROM seed_transactions WHERE id = 1",
        "INSERT INTO seed_transactions (id, name) VALUES (1, 'Bobby')",
    ),
    # A key moved twice in one batch: the diff query keeps the row of key 0
    ("UPDATE seed_moves SET id = 1 WHERE id = 0",),
    ("UPDATE seed_moves SET id = 2 WHERE id = 1",),
    # Two keys swapped: by the key before, each update would overwrite the other's row
    (
        "UPDATE seed_moves SET id = 10 WHERE id = 11",
        "UPDATE seed_moves SET id = 11 WHERE id = 12",
        "UPDATE seed_moves SET id = 12 WHERE id = 10",
    ),
    # A key taken again after its row went: an INSERT has no key before and would match nothing
    ("DELETE FROM seed_moves WHERE id = 21", "INSERT INTO seed_moves VALUES (21, 'new')"),
    ("UPDATE seed_moves SET id = 25 WHERE id = 21", "INSERT INTO seed_moves VALUES (21, 'newer')"),
    # Equal rows with NULLs: one of two goes, and `=` would find neither
    ("DELETE FROM seed_equal WHERE name IS NULL LIMIT 1",),
    ("UPDATE seed_equal SET note = 'first' WHERE name = 'alice' LIMIT 1",),
    ("INSERT INTO seed_equal VALUES ('alice', NULL)",),
)
EXPECTED: Mapping[str, Sequence[tuple[Any, ...]]] = {
    "seed_keyed": [(0, "Alice"), (1, "Bob")],
    "seed_keyless": [("Bob",)],
    "seed_moves": [(2, "alice"), (11, "two"), (12, "one"), (21, "newer"), (25, "new")],
    "seed_equal": [("alice", None), ("alice", None), ("alice", "first"), (None, None)],
    "seed_transactions": [(0, "Alice"), (1, "Bobby")],
}
"""What MySQL itself holds afterwards."""


class SeedExamples:
    """The examples' tables in a database of a test, with different names where the seed calls them all `customers`."""

    tables = tuple(EXPECTED)

    def __init__(self, database: MysqlDatabase) -> None:
        self._database = database

    def create(self) -> None:
        """Create the tables, with the rows of the beginning; names differ in case, as the seed's do."""
        with self._database.connect() as connection, connection.cursor() as cursor:
            for statement in CREATE:
                cursor.execute(statement + " COLLATE utf8mb4_bin")
            for statement in BEFORE:
                cursor.execute(statement)

    def run(self) -> None:
        """Run the examples, transaction by transaction."""
        with self._database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for transaction in TRANSACTIONS:
                for statement in transaction:
                    cursor.execute(statement)
                connection.commit()

    def assert_rows(self, copy: Copy) -> None:
        """The copies hold what the examples end with."""
        names = {"seed_keyless": ["name"], "seed_equal": ["name", "note"]}
        found = {table: copy(table, names.get(table, ["id", "name"])) for table in EXPECTED}
        assert found == {table: Counter(rows) for table, rows in EXPECTED.items()}
