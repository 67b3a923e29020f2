"""A pipeline is pointed at another MySQL server without GTIDs: its positions mean nothing there, which `heal` says, and `reset` copies the tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MYSQL_9
from tests.services.mysql.server import MysqlServer

_TABLES = ("item", "note")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("later_log", [False, True], ids=["earlier log", "later log"])
def test_tables_of_a_server_without_gtids_are_copied_again_at_another(
    later_log: bool, mysql_server: PrivateMysql, tmp_path: Path
) -> None:
    """The new server has the tables of a dump, changed since."""
    old, new = mysql_server(MYSQL_9, gtid=False), mysql_server(MYSQL_9, gtid=False)
    for server in (old, new):
        server.execute("CREATE DATABASE shop")
        for table in _TABLES:
            server.execute(f"CREATE TABLE shop.{table} (id int PRIMARY KEY, name varchar(20))")
            server.execute(f"INSERT INTO shop.{table} VALUES " + ", ".join(f"({n}, 'row {n}')" for n in range(50)))
    if not later_log:
        for _ in range(3):
            old.execute("FLUSH BINARY LOGS")
    replicator = Replicator(
        tmp_path,
        mysql_source(old),
        settings={"batch": {"maxIntervalSeconds": 0.2}, "tables": [{"database": "shop", "table": "*"}]},
    )
    replicator.until_current()
    old.execute("UPDATE shop.item SET name = 'later' WHERE id < 5")
    replicator.until_current()
    if later_log:
        for _ in range(6):
            new.execute("FLUSH BINARY LOGS")
    new.execute("DELETE FROM shop.item WHERE id > 40")
    replicator.source = mysql_source(new)
    lost = replicator.run("--until-current")
    assert (lost.status, lost.error["code"]) == (7, "RPL-3784"), lost.messages
    healed = replicator.start_command("heal", str(replicator.pipeline), "--yes").wait()
    assert (healed.status, healed.error["code"]) == (3, "RPL-1383"), healed.messages
    replicator.follow(healed.error, "reset")
    for n in range(3):
        new.execute(f"INSERT INTO shop.item VALUES ({1000 + n}, 'new')")
        new.execute(f"UPDATE shop.note SET name = 'new {n}' WHERE id = {n}")
        new.execute(f"DELETE FROM shop.note WHERE id = {10 + n}")
        new.execute(f"ALTER TABLE shop.note ADD extra_{n} int")
        replicator.until_current()
        _assert_equal(replicator, new)


def _assert_equal(replicator: Replicator, server: MysqlServer) -> None:
    for table in _TABLES:
        found = Counter(delta_rows(replicator.lake / "shop" / table, ["id", "name"]))
        assert found == Counter(server.query(f"SELECT id, name FROM shop.{table}")), table
