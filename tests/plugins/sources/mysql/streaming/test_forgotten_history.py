"""What is kept of old statements is bounded over a run of months, and enough for every offset that is kept."""

from __future__ import annotations

import pytest

from replicator_sdk import Offset
from replicator_source_mysql.streaming import schema_tracker
from replicator_source_mysql.streaming.rename_decisions import DECISIONS_KEY
from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY
from tests.plugins.sources.mysql.pump import Pump
from tests.services.mysql.server import MysqlDatabase

_ROUNDS = 12


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_tracker, "_FEW_STEPS", 4)


def _work(shop: MysqlDatabase, number: int) -> None:
    """As a nightly job: tables that come and go, a table that is put in another's place, and an ALTER."""
    shop.execute(f"CREATE TABLE night_{number} (id INT PRIMARY KEY)")
    shop.execute(f"ALTER TABLE t ADD COLUMN c{number} INT")
    shop.execute("RENAME TABLE t TO s")
    shop.execute("RENAME TABLE s TO t")
    shop.execute(f"INSERT INTO t (id, c{number}) VALUES ({number}, {number})")
    shop.execute(f"DROP TABLE night_{number}")


@pytest.mark.parametrize("is_long_ago", [True, False])
def test_what_no_kept_offset_needs_is_forgotten(
    mysql_and_mariadb: MysqlDatabase, monkeypatch: pytest.MonkeyPatch, is_long_ago: bool
) -> None:
    shop = mysql_and_mariadb
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    pump = Pump(shop, "t")
    start = pump.prepare()
    oldest: Offset | None = start
    monkeypatch.setattr(type(pump.context), "oldest_offset", lambda _: oldest)
    sizes, runs = [], []
    for number in range(_ROUNDS):
        _work(shop, number)
        runs.append(pump.read())
        if is_long_ago:
            oldest = pump.offset
        sizes.append([len(pump.context.state[key]) for key in (HISTORY_KEY, DECISIONS_KEY)])
    if is_long_ago:
        assert sizes[-1][1] <= 3 * sizes[2][1]
        assert sizes[-1][0] <= 3 * sizes[2][0]
    else:
        pump.offset = start
        again = pump.read()
        assert again.changes("t") == [change for run in runs for change in run.changes("t")]


def test_what_tables_were_is_kept_where_reading_begins_again_for_a_prepared_transaction(
    mysql_and_mariadb: MysqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starts after it read from where it was prepared, which is before the oldest offset that is kept."""
    shop = mysql_and_mariadb
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    shop.execute("CREATE TABLE x (id INT PRIMARY KEY)")
    pump = Pump(shop, "t", "x")
    oldest: Offset | None = pump.prepare()
    monkeypatch.setattr(type(pump.context), "oldest_offset", lambda _: oldest)
    runs = []
    with shop.connect() as other, other.cursor() as cursor:
        for statement in ("XA START 'a'", "INSERT INTO x VALUES (1)", "XA END 'a'", "XA PREPARE 'a'"):
            cursor.execute(statement)
        try:
            for number in (0, 1):
                _work(shop, number)
                runs.append(pump.read())
                oldest = pump.offset
            shop.execute("INSERT INTO t (id) VALUES (2)")
        finally:
            cursor.execute("XA COMMIT 'a'")
    runs.append(pump.read())
    assert [row["id"] for run in runs for _, row, _, _ in run.changes("t")] == [0, 1, 2]
    assert [row["id"] for run in runs for _, row, _, _ in run.changes("x")] == [1]
