"""What an older version left goes on under today's code: Postgres with its slot, the state, and the Delta tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.replicator import SPARK, Replicator
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresServer

OLDER = Path(__file__).parents[1] / "fixtures" / "version_2737478" / "postgres"
VERSION, DATABASE, PORT = 16, "shop", 11111
TABLES = [("public", name) for name in ("customers", "orders", "notes", "events", "late")]
# What happens at the source before each of today's runs.
LIVES = (
    (
        "UPDATE customers SET name = 'Ada' WHERE id = 1",
        "UPDATE orders SET shop = 'west' WHERE number = 1 AND shop = 'south'",
        "DELETE FROM notes WHERE text = 'later'",
        "INSERT INTO events VALUES (3, '2026-03-03', '[3]')",
        "INSERT INTO late VALUES (3, '[3]')",
    ),
    (
        "ALTER TABLE customers ADD COLUMN language text DEFAULT 'en'",
        "ALTER TABLE orders RENAME COLUMN placed_at TO ordered_at",
        "INSERT INTO customers VALUES (5, 'Eve', NULL, true, 'ok', 2, 'fr')",
        "DELETE FROM orders WHERE shop = 'west'",
        "INSERT INTO notes VALUES ('same', '2026-01-01', '\\x00ff')",
        "CREATE TABLE events_2027 PARTITION OF events FOR VALUES FROM ('2027-01-01') TO ('2028-01-01')",
        "UPDATE events SET day = '2027-01-01' WHERE id = 1",
        "TRUNCATE late",
        "INSERT INTO late VALUES (7, NULL)",
    ),
    (
        "UPDATE customers SET language = 'de' WHERE id = 2",
        "INSERT INTO orders VALUES ('east', 7, -1.25, NULL)",
        "DELETE FROM events WHERE id = 2",
    ),
)


class Stored(Replicator):
    """The replicator of the stored pipeline JSON."""

    def document(self) -> dict[str, Any]:
        text = (OLDER / "pipeline.json").read_text("utf-8")
        port = str(self.source[1]["port"])
        document: dict[str, Any] = json.loads(text.replace("FOLDER", str(self.folder)).replace(str(PORT), port))
        return document | {"spark": SPARK}  # what is stored there are settings of Spark's, with which it is slow


@pytest.fixture
def server(private_postgres: PrivatePostgres) -> PostgresServer:
    """The older version's server, with its data and its slot."""
    return private_postgres(VERSION, stored=OLDER / "data.tar.xz")


@pytest.fixture
def stored(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """A copy of what the older version left."""
    monkeypatch.setenv("REPLICATOR_SECRET_SHOP", server.password)
    folder = tmp_path / "shop"
    shutil.copytree(OLDER, folder, ignore=shutil.ignore_patterns("data.tar.xz"))
    return Stored(folder, ("postgres", {"port": server.port}))


@pytest.mark.timeout(600)
def test_todays_replicator_goes_on_from_slot_and_state_of_an_older_one(server: PostgresServer, stored: Stored) -> None:
    made = {name: identity(stored, name) for _, name in TABLES}
    with server.connect(DATABASE) as shop:
        assert_equal_copies(shop, stored.lake, TABLES)
        for statements in LIVES:
            for statement in statements:
                shop.execute(statement.encode())
            ended = stored.until_current()
            assert stored.copied(ended) == []
            assert_equal_copies(shop, stored.lake, TABLES)
    assert {name: identity(stored, name) for _, name in TABLES} == made


def identity(stored: Stored, table: str) -> str:
    """The identity of a Delta table, which a new one would not have."""
    return str(DeltaTable(str(stored.lake / "public" / table)).metadata().id)
