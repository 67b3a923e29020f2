"""The MariaDB servers of the tests do what the tests rely on, where MariaDB is not MySQL."""

from __future__ import annotations

from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_11_8
from tests.services.mysql.server import MysqlServer
from tests.services.mysql.test_server import event_kinds


def test_both_lines_of_mariadb_are_there(mariadb: MysqlServer, mariadb_11: MysqlServer) -> None:
    assert mariadb.is_mariadb
    assert mariadb_11.is_mariadb
    assert mariadb.version[:2] == (10, 11)
    assert mariadb_11.version[:2] == (11, 8)


def test_mariadb_numbers_transactions_by_gtid_and_leaves_row_metadata_at_its_default(mariadb: MysqlServer) -> None:
    assert mariadb.query("SELECT @@gtid_strict_mode, @@binlog_row_metadata") == [(1, "NO_LOG")]
    with mariadb.database():
        ((positions,),) = mariadb.query("SELECT @@gtid_binlog_pos")
    position = next(each for each in positions.split(",") if each.startswith("0-"))  # other tests write other domains
    _, server_id, number = position.split("-")
    assert server_id == str(mariadb.port)
    assert int(number) > 0


def test_mariadb_writes_compressed_events_when_configured(mysql_server: PrivateMysql) -> None:
    server = mysql_server(MARIADB_11_8, gtid=False, log_bin_compress=True, log_bin_compress_min_len=10)
    assert server.query("SELECT @@gtid_strict_mode, @@log_bin_compress") == [(0, 1)]
    with server.database() as database:
        database.execute("CREATE TABLE t (words text)")
        database.execute("INSERT INTO t VALUES (REPEAT('a', 1000))")
    assert any(kind.startswith("Write_rows_compressed") for kind in event_kinds(server))
