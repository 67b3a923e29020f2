"""A few rows of a table are read as a copy would read them, and nothing is left at the server."""

from __future__ import annotations

import decimal
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import DeltaSource, EventReaderDefinition, TableId
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_source_kafka import KafkaConfig, KafkaSource
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.plugin import SqliteSource
from replicator_source_sqlite.snapshots import sample
from tests.plugins.sources.mysql.pump import source_of as mysql_source
from tests.plugins.sources.postgres.pump import source_of as postgres_source
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase

PRICE = decimal.Decimal("1.50")


def sampled(
    source: DeltaSource[Any], table: TableId, rows: int = 10, condition: str = "", columns: tuple[str, ...] = ()
) -> list[Mapping[str, Any]]:
    """The rows that a source shows of one of its tables."""
    with source.create_table_registry() as registry:
        schema = registry.describe_table(table)
    schema = schema.select(columns) if columns else schema
    definition = EventReaderDefinition({table: schema}, conditions={table: condition} if condition else {})
    found = source.sample_rows(definition, table, rows)
    assert found is not None
    assert found.schema == schema.arrow
    shown: list[Mapping[str, Any]] = found.to_pylist()
    return shown


def check(source: DeltaSource[Any], table: TableId, refused: str) -> None:
    """What each source promises of a table `t (id, name, price)` with 100 rows."""
    assert len(sampled(source, table, 7)) == 7
    assert sampled(source, table, 7, "id = 3") == [{"id": 3, "name": "n3", "price": PRICE}]
    assert sampled(source, table, 7, "id = 3", ("name",)) == [{"id": 3, "name": "n3"}]
    assert sampled(source, table, 7, "id < 0") == []
    with pytest.raises(NeedsUserError) as wrong:
        sampled(source, table, 7, "no_column = 3")
    assert wrong.value.code == refused


def test_rows_of_postgres_are_shown_and_no_slot_is_left(postgres_oldest_and_newest: PostgresDatabase) -> None:
    database = postgres_oldest_and_newest
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(8, 2))")
    database.execute("INSERT INTO t SELECT i, 'n' || i, 1.5 FROM generate_series(1, 100) i")
    check(postgres_source(database), TableId(database.name, "t", "public"), "RPL-3607")
    assert database.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    assert database.execute("SELECT count(*) FROM pg_publication") == [(0,)]


def test_rows_of_partitions_are_shown_and_those_of_inheriting_tables_are_not(
    postgres_database: PostgresDatabase,
) -> None:
    postgres_database.execute("CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    postgres_database.execute("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10)")
    postgres_database.execute("INSERT INTO parted VALUES (1), (2)")
    postgres_database.execute("CREATE TABLE parent (id int PRIMARY KEY)")
    postgres_database.execute("CREATE TABLE child () INHERITS (parent)")
    postgres_database.execute("INSERT INTO child VALUES (1)")
    source, name = postgres_source(postgres_database), postgres_database.name
    assert len(sampled(source, TableId(name, "parted", "public"))) == 2
    assert sampled(source, TableId(name, "parent", "public")) == []


def test_a_condition_of_postgres_cannot_write(postgres_database: PostgresDatabase) -> None:
    postgres_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    postgres_database.execute("INSERT INTO t VALUES (1)")
    postgres_database.execute("CREATE SEQUENCE counted")
    with pytest.raises(Exception, match="read-only"):
        sampled(
            postgres_source(postgres_database),
            TableId(postgres_database.name, "t", "public"),
            condition="nextval('public.counted') > 0",
        )


@pytest.mark.parametrize("more", ["SELECT (1", "SELECT 1 --"])
def test_a_condition_of_postgres_is_one_statement(postgres_database: PostgresDatabase, more: str) -> None:
    postgres_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    postgres_database.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(NeedsUserError) as refused:
        sampled(
            postgres_source(postgres_database),
            TableId(postgres_database.name, "t", "public"),
            condition=f"true); COMMIT; DELETE FROM public.t; {more}",
        )
    assert refused.value.code == "RPL-3607"
    assert postgres_database.execute("SELECT count(*) FROM t") == [(1,)]


def test_rows_of_mysql_are_shown(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, price decimal(8, 2))")
    database.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'n{n}', 1.5)" for n in range(1, 101)))
    check(mysql_source(database), TableId(database.name, "t"), "RPL-3826")


def test_a_condition_of_mysql_cannot_write(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("CREATE TABLE noted (n int)")
    database.execute(
        f"CREATE FUNCTION notes() RETURNS int DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO {database.name}.noted VALUES (1); RETURN 1; END"
    )
    for condition in ("notes() = 1", "id IN (SELECT * FROM (SELECT notes()) AS x)", "id = (SELECT notes())"):
        with pytest.raises(Exception, match="READ ONLY"):
            sampled(
                mysql_source(database),
                TableId(database.name, "t"),
                condition=condition.replace("notes", f"{database.name}.notes"),
            )
    assert database.query("SELECT count(*) FROM noted") == [(0,)]


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteSource:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(8, 2))")
        database.executemany("INSERT INTO t VALUES (?, ?, 1.5)", [(n, f"n{n}") for n in range(1, 101)])
    database.close()
    return SqliteSource(SqliteConfig(path=path))


def test_rows_of_sqlite_are_shown_without_triggers(sqlite: SqliteSource) -> None:
    check(sqlite, TableId("main", "t"), "RPL-3531")
    with sqlite3.connect(sqlite.config.path) as database:
        assert database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (0,)
    database.close()


@pytest.mark.timeout(60)
def test_a_condition_of_sqlite_that_takes_long_is_given_up(
    sqlite: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "_SECONDS", 0.5)
    endless = "(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c) > 0"
    with pytest.raises(NeedsUserError) as given_up:
        sampled(sqlite, TableId("main", "t"), condition=endless)
    assert given_up.value.code == "RPL-3532"


def test_a_value_that_a_copy_refuses_is_refused_with_its_column_and_without_itself(sqlite: SqliteSource) -> None:
    with sqlite3.connect(sqlite.config.path) as database:
        database.execute("UPDATE t SET price = 'not a price' WHERE id = 1")
    database.close()
    with pytest.raises(DataError) as refused:
        sampled(sqlite, TableId("main", "t"))
    assert "price" in str(refused.value)
    assert "not a price" not in str(refused.value)


def test_a_source_with_a_log_only_shows_no_rows() -> None:
    source = KafkaSource(KafkaConfig(bootstrap_servers="127.0.0.1:1", topics=("t",)))
    table = TableId("kafka", "t")
    assert source.sample_rows(EventReaderDefinition({}), table, 1) is None
