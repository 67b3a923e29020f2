"""A MySQL that is replicated into Delta goes back: over changes of structure, an emptied table and keys that change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.rewind.choice import Wanted
from replicator_runtime.engine.rewind.rewind import rewind
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.worker import run
from replicator_source_mysql import MySqlSource
from replicator_state import ReplicatorDirectory
from tests.end_to_end.comparison import table_rows
from tests.runtime.engine.rewind.lake_shop import Copies, Host
from tests.services.mysql.client import rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from replicator_runtime.config import Pipeline
    from tests.services.mysql.server import MysqlDatabase

TABLES = ("customer", "note")


class MysqlHost(Host):
    """MySQL into Delta."""

    def source(self, name: str) -> type[MySqlSource]:  # type: ignore[override]
        return MySqlSource


class MysqlShop:
    """A database, its replicator, and the lake."""

    def __init__(self, database: MysqlDatabase, folder: Path) -> None:
        self.database, self.lake, self.base = database, folder / "lake", str(folder / "state")
        source = {
            "host": database.host, "port": database.port, "user": database.user, "password": database.password,
            "sslMode": "disable",
        }  # fmt: skip
        self.document: dict[str, Any] = {
            "name": "shop",
            "offsetBasePath": self.base,
            "stages": [
                {"name": "db", "plugin": {"name": "mysql", "type": "cdcSource", "properties": source}},
                {
                    "name": "lake",
                    "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(self.lake)}},
                },
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "tables": [{"database": database.name, "table": "*"}],
            "retries": {"maxDurationSeconds": 5, "delaySeconds": 0.1},
        }

    def pipeline(self) -> Pipeline:
        return build_pipeline(self.document, host=MysqlHost())  # type: ignore[arg-type]

    def run(self) -> None:
        assert run(self.pipeline(), until_current=True).reached_goal

    def saved(self) -> str:
        latest = ReplicatorDirectory(self.base, "default", "shop").offsets().latest()
        assert latest is not None
        return f"offset.{latest.commit_timestamp:020d}"

    def copies(self) -> Copies:
        found = {table: DeltaTable(str(self.lake / self.database.name / table)) for table in TABLES}
        names = {table: tuple(field.name for field in delta.schema().fields) for table, delta in found.items()}
        return {table: (names[table], Counter(table_rows(found[table], names[table]))) for table in TABLES}

    def assert_equal(self) -> None:
        for table in TABLES:
            columns = rows(
                self.database,
                "SELECT column_name FROM information_schema.columns WHERE table_schema = database()"
                f" AND table_name = '{table}' ORDER BY ordinal_position",
            )
            wanted = Counter(map(tuple, rows(self.database, f"SELECT * FROM {table}")))
            delta = DeltaTable(str(self.lake / self.database.name / table))
            assert Counter(table_rows(delta, [name for (name,) in columns])) == wanted, table

    def change(self, number: int) -> None:
        key = 100 + 10 * number
        for statement in (
            f"INSERT INTO customer (id, name) VALUES ({key}, 'new'), ({key + 1}, 'new')",
            f"UPDATE customer SET name = concat(name, '{number}') WHERE id % 2 = 0",
            f"UPDATE customer SET id = {key + 5} WHERE id = {key}",
            f"DELETE FROM customer WHERE id = {number + 1}",
            "INSERT INTO note VALUES ('t1'), ('t1')",
            "DELETE FROM note WHERE text = 't2' LIMIT 1",
        ):
            self.database.execute(statement)


@pytest.fixture
def mysql_shop(
    mysql_database: MysqlDatabase, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> MysqlShop:
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    mysql_database.execute("CREATE TABLE customer (id int PRIMARY KEY, name varchar(200))")
    mysql_database.execute("CREATE TABLE note (text varchar(20))")
    mysql_database.execute("INSERT INTO customer VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f')")
    mysql_database.execute("INSERT INTO note VALUES ('t1'), ('t2'), ('t2'), ('t2')")
    return MysqlShop(mysql_database, tmp_path)


def test_the_target_is_as_it_was_and_three_runs_later_equal(mysql_shop: MysqlShop) -> None:
    shop = mysql_shop
    shop.run()
    shop.change(1)
    shop.run()
    then, offset = shop.copies(), shop.saved()
    shop.change(2)
    shop.database.execute("ALTER TABLE customer ADD COLUMN city varchar(20) DEFAULT 'Rome'")
    shop.change(3)
    shop.run()
    shop.database.execute("ALTER TABLE customer RENAME COLUMN city TO town")
    shop.database.execute("TRUNCATE TABLE note")
    shop.database.execute("INSERT INTO note VALUES ('after')")
    shop.run()
    shop.assert_equal()
    plan = rewind(shop.pipeline(), Wanted(offset), lambda plan: None)
    assert plan is not None
    assert all(one.back is not None for one in plan.tables)
    assert shop.copies() == then
    shop.run()
    shop.assert_equal()
    for number in range(3):
        shop.change(20 + number)
        shop.database.execute(f"ALTER TABLE customer ADD COLUMN later_{number} int DEFAULT {number}")
        shop.change(30 + number)
        shop.run()
        shop.assert_equal()
