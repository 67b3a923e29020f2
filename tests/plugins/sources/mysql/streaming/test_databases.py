"""Databases that are created and dropped are emitted where the log has it, after the tables that are dropped with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator_sdk import DDLOperation, TableId
from replicator_sdk.testing.contexts import CollectingEmitter
from tests.plugins.sources.mysql.pump import Pump, Run
from tests.services.mysql.server import MysqlDatabase


@pytest.fixture
def shop(mysql_and_mariadb: MysqlDatabase) -> Iterator[MysqlDatabase]:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    yield database
    database.server.execute(f"DROP DATABASE IF EXISTS {database.name}_new")
    database.server.execute(f"CREATE DATABASE IF NOT EXISTS {database.name}")


def events(run: Run) -> list[tuple[DDLOperation, TableId]]:
    return [(event.operation, event.table) for event in run.ddl]


def test_a_database_is_created_and_dropped_whether_tables_of_it_are_captured_or_not(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    new = f"{shop.name}_new"
    shop.execute(f"CREATE DATABASE {new} CHARACTER SET latin1")
    shop.execute(f"CREATE TABLE {new}.u (id INT PRIMARY KEY)")
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute(f"ALTER DATABASE {new} CHARACTER SET utf8mb4")
    shop.execute(f"DROP SCHEMA {new}")
    run = pump.read()
    assert events(run) == [
        (DDLOperation.CREATE_DATABASE, TableId(new, "")),
        (DDLOperation.DROP_DATABASE, TableId(new, "")),
    ]
    assert len(run.changes("t")) == 1


def test_the_tables_of_a_dropped_database_are_dropped_first(shop: MysqlDatabase) -> None:
    shop.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    pump = Pump(shop, "t", "u")
    pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute(f"DROP DATABASE {shop.name}")
    shop.server.execute(f"CREATE DATABASE {shop.name}")
    run = pump.read()
    assert events(run) == [
        (DDLOperation.DROP_TABLE, pump.table("t")),
        (DDLOperation.DROP_TABLE, pump.table("u")),
        (DDLOperation.DROP_DATABASE, TableId(shop.name, "")),
        (DDLOperation.CREATE_DATABASE, TableId(shop.name, "")),
    ]
    assert [event.ordinal for event in run.ddl] == [0, 1, 2, 0]


def test_a_replay_emits_the_same_events_at_the_same_positions(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    start = pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute(f"CREATE DATABASE {shop.name}_new")
    shop.execute("FLUSH BINARY LOGS")
    shop.execute(f"DROP DATABASE {shop.name}_new")
    shop.execute("INSERT INTO t VALUES (2, 'b')")
    first = pump.read()
    middle = [window.commits.last for window in first.emitter.closed_windows if window.commits is not None]
    wanted = [(event.operation, event.offset, event.ordinal) for event in first.ddl]
    end = pump.source.latest_offset()
    for offset in (start, *middle):
        if not offset < end:
            continue
        pump.offset = offset
        with pump.running(CollectingEmitter()) as run:
            run.wait_for(end)
        expected = [place for place in wanted if not place[1] < offset]
        assert [(event.operation, event.offset, event.ordinal) for event in run.ddl] == expected


def test_a_replaced_database_is_dropped_and_created(shop: MysqlDatabase) -> None:
    if not shop.server.is_mariadb:
        pytest.skip("MariaDB only")
    pump = Pump(shop, "t")
    pump.prepare()
    shop.execute(f"CREATE OR REPLACE DATABASE {shop.name}")
    operations = [operation for operation, _ in events(pump.read())]
    assert operations == [DDLOperation.DROP_TABLE, DDLOperation.DROP_DATABASE, DDLOperation.CREATE_DATABASE]
