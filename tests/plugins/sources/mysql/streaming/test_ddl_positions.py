"""A change of structure has one position, from whatever position before it the log is read."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk import Offset
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_mysql.offset import MySqlOffset
from tests.plugins.sources.mysql.pump import Pump, Run
from tests.services.mysql.server import MysqlDatabase

ROTATE = "FLUSH BINARY LOGS"


@pytest.fixture
def shop(mysql_and_mariadb: MysqlDatabase) -> MysqlDatabase:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    database.execute("CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR(20))")
    return database


def ddl_places(run: Run) -> list[tuple[Any, ...]]:
    """Operation, table, base offset and ordinal of each change of structure."""
    return [(e.operation, e.table.table, e.offset, e.ordinal) for e in run.ddl]


def marks(run: Run) -> list[Offset]:
    """The last commit of each window, heartbeats among them."""
    return [window.commits.last for window in run.emitter.closed_windows if window.commits is not None]


def rotate_while_idle(shop: MysqlDatabase, run: Run) -> Offset:
    """Begin a new file and wait for the heartbeat in it; returns its offset."""
    before = run.emitter.last_offset
    shop.execute(ROTATE)
    run.wait_until(lambda: before is None or before < run.emitter.last_offset)
    run.wait_for(run.pump.source.latest_offset())
    assert run.emitter.last_offset is not None
    return run.emitter.last_offset


def assert_same_from_everywhere(pump: Pump, starts: list[Offset], expected: list[tuple[Any, ...]]) -> None:
    """From each start the changes of structure after it have the same positions."""
    end = pump.source.latest_offset()
    for start in [start for start in starts if start < end]:
        pump.offset = start
        with pump.running(CollectingEmitter()) as run:
            run.wait_for(end)
        wanted = [place for place in expected if not place[2] < start]
        assert ddl_places(run) == wanted, f"read from {start}"


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t ADD COLUMN n INT", "TRUNCATE t", "RENAME TABLE t TO aside, u TO t, aside TO u", "DROP TABLE t, u"],
)
def test_a_ddl_after_heartbeats_has_the_position_it_has_without_them(shop: MysqlDatabase, statement: str) -> None:
    pump = Pump(shop, "t", "u")
    start = pump.prepare()
    with pump.running() as run:
        shop.execute("INSERT INTO t VALUES (1, 'a')")
        run.wait_for(pump.source.latest_offset())
        beat = rotate_while_idle(shop, run)
        shop.execute(statement)
        run.wait_for(pump.source.latest_offset())
    found = ddl_places(run)
    assert found
    assert all(not place[2] < beat for place in found), "below a heartbeat before it"
    assert_same_from_everywhere(pump, [start, *marks(run)], found)


@pytest.mark.parametrize(
    "statement",
    ["RENAME TABLE t TO aside, u TO t, aside TO u", "RENAME TABLE t TO aside, u TO other", "DROP TABLE t, u"],
)
def test_a_ddl_of_several_tables_has_the_same_position_whichever_are_selected(
    shop: MysqlDatabase, statement: str
) -> None:
    """Else an edit of `tables` after a kill inside the statement applies an event twice, or skips it."""
    both = Pump(shop, "t", "u")
    start = both.prepare()
    shop.execute(statement)
    together = {(e.prev_table or e.table).table: (e.offset, e.ordinal) for e in both.read().ddl}
    both.offset = start
    both.schemas = {table: schema for table, schema in both.schemas.items() if table.table == "u"}
    alone = {(e.prev_table or e.table).table: (e.offset, e.ordinal) for e in both.read().ddl}
    assert list(alone) == ["u"]
    assert alone["u"] == together["u"]


def test_a_ddl_first_after_a_snapshot_is_not_below_the_snapshots_position(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    start = pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    shop.execute(ROTATE)
    copied = pump.snapshot("t")[0].position
    shop.execute("TRUNCATE t")
    pump.offset = start
    first = pump.read()
    (place,) = ddl_places(first)
    assert not place[2] < copied
    assert_same_from_everywhere(pump, [start, copied, *marks(first)], [place])


def test_a_transaction_that_is_emitted_open_begins_after_a_commit_at_its_own_position(
    mysql_database: MysqlDatabase,
) -> None:
    """It is larger than what is received at once, so its first rows are emitted before its commit is known."""
    mysql_database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(2000))")
    pump = Pump(mysql_database, "t", heartbeat_interval_seconds=30)
    pump.prepare()
    digits = "(SELECT 0 AS d" + "".join(f" UNION SELECT {n}" for n in range(1, 10)) + ")"
    numbers = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d"
    joined = f"{digits} a, {digits} b, {digits} c, {digits} e"
    with pump.running() as run:
        mysql_database.execute(ROTATE)
        mysql_database.execute(f"INSERT INTO t SELECT {numbers}, REPEAT('x', 2000) FROM {joined}")
        run.wait_for(pump.source.latest_offset(), 120)
    *before, last = run.emitter.closed_windows
    assert len(last.events) > 1
    begin = before[-1].commits
    assert begin is not None
    (name, position), place = mysql_database.query("SHOW BINARY LOG STATUS")[0][:2], begin.last
    assert isinstance(place, MySqlOffset)
    assert place.file == name
    assert place.position < position - 20_000_000
    events = mysql_database.query(f"SHOW BINLOG EVENTS IN '{name}'")
    groups = [event[1] for event in events if event[2] == "Gtid"]
    assert place.position == groups[-1]
