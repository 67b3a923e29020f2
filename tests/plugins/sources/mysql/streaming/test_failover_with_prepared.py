"""After a failover the tables are known, and reading begins again on the new server, also where a transaction is prepared there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_source_mysql import MySqlOffset
from replicator_source_mysql.binlog.log_availability import origin_of
from replicator_source_mysql.streaming import reader
from tests.plugins.sources.mysql.pump import Pump

if TYPE_CHECKING:
    import pytest

    from tests.services.mysql.server import MysqlDatabase


def _as_of_another_server(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement and a row are read, and their offsets are those of a server whose log has other files."""
    with monkeypatch.context() as former:
        former.setattr(reader, "origin_of", lambda connection: replace(origin_of(connection), identity="before"))
        former.setattr(reader, "check_same", lambda *_: None)
        pump.prepare()
        pump.database.execute("ALTER TABLE t ADD COLUMN n INT")
        pump.database.execute("INSERT INTO t VALUES (1, 1)")
        end = pump.source.latest_offset()
        assert isinstance(end, MySqlOffset)
        with pump.running() as run:
            run.wait_for(replace(end, server="before"))
    last = run.emitter.last_offset
    assert isinstance(last, MySqlOffset)
    pump.offset = replace(last, file="elsewhere.000077", position=4)


def test_a_transaction_that_is_prepared_first_after_a_failover_is_read_again_at_each_start(
    mysql_and_mariadb: MysqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = mysql_and_mariadb
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    pump = Pump(shop, "t")
    _as_of_another_server(pump, monkeypatch)
    with shop.connect() as other, other.cursor() as cursor:
        for statement in ("XA START 'a'", "INSERT INTO t VALUES (2, 2)", "XA END 'a'", "XA PREPARE 'a'"):
            cursor.execute(statement)
        try:
            for number in (3, 4):
                shop.execute(f"INSERT INTO t VALUES ({number}, {number})")
                assert [row["n"] for _, row, _, _ in pump.read().changes("t")] == [number]
        finally:
            cursor.execute("XA COMMIT 'a'")
    assert [row["n"] for _, row, _, _ in pump.read().changes("t")] == [2]
