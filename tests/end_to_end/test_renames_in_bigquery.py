"""Tables of a SQLite database that are renamed there are renamed in BigQuery, also by runs after one that was killed."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.kills import killed
from tests.end_to_end.replicator import Ended, Replicator
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings

_MERGING = {
    "mode": "merge-flush",
    "upsertEnabled": True,
    "deleteEnabled": True,
    "kafkaKeyFieldName": "recordKey",
    "mergeIntervalMs": 200,
}
MODES = {"batch": {}, "merge-flush": _MERGING}
SWAP = ("ALTER TABLE customer RENAME TO x", "ALTER TABLE note RENAME TO customer", "ALTER TABLE x RENAME TO note")
CHAIN = ("ALTER TABLE customer RENAME TO former", "ALTER TABLE note RENAME TO customer")


@dataclass
class Shop:
    """A database and its copy in a dataset."""

    database: Path
    dataset: str
    emulators: Emulators
    replicator: Replicator

    def run(self, *statements: str) -> None:
        """Change the source."""
        connection = sqlite3.connect(self.database, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def tables(self) -> list[str]:
        """The copies."""
        found = rows(self.emulators, f"SELECT table_name FROM `{PROJECT}`.`{self.dataset}`.INFORMATION_SCHEMA.TABLES")
        return sorted(str(name) for (name,) in found if not str(name).startswith("_"))

    def assert_equal(self, *tables: str) -> None:
        """The database has these tables, and so has the dataset, with the same rows."""
        assert self.tables() == sorted(tables)
        connection = sqlite3.connect(self.database)
        for table in tables:
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            names = ", ".join(column[0] for column in cursor.description)
            source = Counter(tuple(None if v is None else str(v) for v in row) for row in cursor)
            copy = rows(self.emulators, f"SELECT {names} FROM `{PROJECT}`.`{self.dataset}`.`{table}`")
            assert Counter(tuple(None if v is None else str(v) for v in row) for row in copy) == source, table
        connection.close()

    def without_a_copy(self) -> None:
        """A run that copies no table."""
        ended = self.replicator.until_current()
        assert self.replicator.copied(ended) == [], ended.messages

    def three_runs(self, *tables: str) -> None:
        """Rows and structure change between the runs that follow."""
        first = tables[0]
        for number in range(3):
            self.run(
                f"UPDATE {first} SET name = 'run {number}' WHERE id = 2",
                f"INSERT INTO {first} (id, name) VALUES ({100 + number}, 'more')",
                *((f"ALTER TABLE {first} ADD COLUMN later INTEGER DEFAULT 4",) if number == 1 else ()),
            )
            self.without_a_copy()
            self.assert_equal(*tables)


@pytest.fixture(params=MODES)
def shop(bigquery_emulators: Emulators, tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    dataset = f"d{uuid.uuid4().hex[:12]}"
    replicator = Replicator(
        tmp_path,
        ("sqlite", {"path": str(tmp_path / "shop.db")}),
        ("bigquery", target_settings(bigquery_emulators, dataset, **MODES[request.param])),
        settings={"tables": [{"database": "main", "table": "*"}], "batch": {"maxIntervalSeconds": 0.1}},
    )
    made = Shop(tmp_path / "shop.db", dataset, bigquery_emulators, replicator)
    made.run(
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE note (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO customer VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT INTO note VALUES (1, 'x'), (2, 'y')",
    )
    ended: Ended = replicator.until_current()
    assert "SNAPSHOTTING" in ended.messages
    made.assert_equal("customer", "note")
    return made


@pytest.mark.timeout(300)
def test_a_renamed_table_is_not_copied(shop: Shop) -> None:
    shop.run("UPDATE customer SET name = 'z' WHERE id = 1", "ALTER TABLE customer RENAME TO client")
    shop.run(
        "DELETE FROM client WHERE id = 3", "ALTER TABLE client RENAME TO person", "INSERT INTO person VALUES (4, '')"
    )
    shop.without_a_copy()
    shop.assert_equal("note", "person")
    shop.three_runs("person", "note")


@pytest.mark.timeout(300)
def test_tables_that_exchange_their_names_are_exchanged(shop: Shop) -> None:
    shop.run("UPDATE note SET name = 'z' WHERE id = 1", *SWAP, "DELETE FROM note WHERE id = 3")
    shop.without_a_copy()
    shop.assert_equal("customer", "note")
    shop.three_runs("note", "customer")


@pytest.mark.timeout(300)
def test_a_table_takes_the_name_that_another_left(shop: Shop) -> None:
    shop.run(*CHAIN, "DELETE FROM former WHERE id = 3", "INSERT INTO customer VALUES (9, 'once a note')")
    shop.without_a_copy()
    shop.assert_equal("customer", "former")
    shop.three_runs("former", "customer")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("shop", "point"),
    [
        ("batch", "engine.rename.saved"),
        ("batch", "bigquery.rename.renamed@2"),
        ("batch", "engine.rename.applied@3"),
        ("merge-flush", "bigquery.rename.begun"),
        ("merge-flush", "bigquery.rename.committed@2"),
    ],
    indirect=["shop"],
)
def test_three_runs_after_a_kill_beside_an_exchange_of_names_are_equal(shop: Shop, point: str) -> None:
    shop.run("UPDATE note SET name = 'z' WHERE id = 1", *SWAP, "DELETE FROM note WHERE id = 3")
    place, _, count = point.partition("@")
    running = shop.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{place}=kill@{count or 1}")
    killed(running, point)
    shop.run("INSERT INTO customer VALUES (50, 'after the kill')")
    shop.three_runs("note", "customer")
