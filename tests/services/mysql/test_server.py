"""The MySQL servers of the tests do what the tests rely on; `test_mariadb.py` has what differs there."""

from __future__ import annotations

import datetime as dt
import socket
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import psutil
import pymysql
import pytest

from tests.services.certificates import issue
from tests.services.debian import packages
from tests.services.mysql.client import rows, texts
from tests.services.mysql.fixtures import MysqlServers, PrivateMysql, make_server
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, RELEASES, Release, programs
from tests.services.mysql.server import MysqlDatabase, MysqlServer
from tests.services.processes import LOOPBACK, ServerError, scratch_folder


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_every_server_is_small_private_and_writes_rows_to_its_binlog(
    release: Release, mysql_servers: MysqlServers
) -> None:
    server = mysql_servers(release)
    settings = dict(server.query("SHOW GLOBAL VARIABLES"))
    promised = {
        "log_bin": "ON",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "bind_address": LOOPBACK,
        "port": str(server.port),
        "server_id": str(server.port),
        "socket": "",
        "performance_schema": "OFF",
        "innodb_flush_method": "nosync",
        "innodb_buffer_pool_size": str(64 * 1024 * 1024),
        "character_set_server": "utf8mb4",
        "time_zone": "+00:00",
    }
    assert {name: settings[name] for name in promised} == promised
    assert release.name.startswith(f"{'mariadb' if server.is_mariadb else 'mysql'}-{server.version[0]}")
    with server.database() as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY)")
        database.execute("INSERT INTO t VALUES (%s)", 1)
        assert any(kind.startswith("Write_rows") for kind in event_kinds(server))


def test_mysql_numbers_transactions_by_gtid_and_leaves_row_metadata_at_its_default(mysql: MysqlServer) -> None:
    assert mysql.version >= (9,)
    found = mysql.query("SELECT @@gtid_mode, @@enforce_gtid_consistency, @@binlog_row_metadata")
    assert found == [("ON", "ON", "MINIMAL")]


def test_options_differ_where_a_test_wants_them_to(mysql_server: PrivateMysql) -> None:
    server = mysql_server(gtid=False, binlog_row_metadata="FULL", require_secure_transport=True, log_bin=False)
    assert server.query("SELECT @@gtid_mode, @@binlog_row_metadata, @@log_bin") == [("OFF", "FULL", 0)]
    with pytest.raises(pymysql.err.OperationalError, match="insecure transport"):
        server.connect(ssl_disabled=True)


def test_mysql_writes_compressed_transactions_when_a_session_asks_for_them(mysql_database: MysqlDatabase) -> None:
    mysql_database.execute("CREATE TABLE t (id int PRIMARY KEY, words text)")
    with mysql_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_transaction_compression = ON")
        cursor.execute("INSERT INTO t VALUES (1, REPEAT('a', 1000))")
    assert "Transaction_payload" in event_kinds(mysql_database.server)


# ------------------------------------------------------------ access


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_no_login_works_without_the_password(release: Release, mysql_servers: MysqlServers) -> None:
    server = mysql_servers(release)
    assert {user for user, in server.query("SELECT user FROM mysql.user")} <= {
        "root", "mariadb.sys", "mysql.infoschema", "mysql.session", "mysql.sys",
    }  # fmt: skip
    for wrong in ("", "wrong"):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            server.connect(password=wrong)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_server_can_be_verified_over_tls(release: Release, host: str, mysql_servers: MysqlServers) -> None:
    with mysql_servers(release).connect(host=host) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        ((_, cipher),) = cursor.fetchall()
    assert cipher


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_server_is_not_trusted_by_another_authority(
    release: Release, mysql_servers: MysqlServers, tmp_path: Path
) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="certificate verify failed"):
        mysql_servers(release).connect(ssl_ca=str(issue(tmp_path).authority))


# ------------------------------------------------------------ life


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_killed_server_keeps_what_it_committed_and_its_port(release: Release, mysql_server: PrivateMysql) -> None:
    server = mysql_server(release)
    port, first = server.port, server.pid
    server.execute("CREATE DATABASE shop")
    server.execute("CREATE TABLE shop.t AS SELECT 1 AS id")
    server.kill()
    with pytest.raises(pymysql.err.OperationalError):
        server.query("SELECT 1")
    server.start()
    assert server.query("SELECT id FROM shop.t") == [(1,)]
    assert server.port == port
    assert server.pid != first


def test_restart_changes_options_and_keeps_port_and_identity(mysql_server: PrivateMysql) -> None:
    server = mysql_server(binlog_row_image="MINIMAL")
    port, identity = server.port, server.query("SELECT @@server_uuid")
    assert server.query("SELECT @@binlog_row_image") == [("MINIMAL",)]
    server.restart(binlog_row_image=None, gtid_mode="OFF", enforce_gtid_consistency="OFF")
    assert server.query("SELECT @@binlog_row_image, @@gtid_mode") == [("FULL", "OFF")]
    assert (server.port, server.query("SELECT @@server_uuid")) == (port, identity)


def test_two_servers_are_different_servers(mysql: MysqlServer, mysql_server: PrivateMysql) -> None:
    other = mysql_server()
    identity = "SELECT @@server_uuid, @@server_id"
    assert set(mysql.query(identity)[0]).isdisjoint(other.query(identity)[0])


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_stopped_server_leaves_no_process_no_port_and_no_file(release: Release, mysql_server: PrivateMysql) -> None:
    server = mysql_server(release)
    assert server.pid is not None
    server.stop()
    assert not server.running
    assert not psutil.pid_exists(server.pid)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, server.port))
    server.remove()
    assert not server.data.parent.exists()


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_server_moves_to_another_port_when_its_own_is_taken(release: Release) -> None:
    server = make_server(release)
    try:
        with socket.create_server((LOOPBACK, 0)) as taken:
            server.port = int(taken.getsockname()[1])
            server.start()
            assert server.port != taken.getsockname()[1]
        assert server.query("SELECT @@port") == [(server.port,)]
    finally:
        server.remove()


def test_unknown_option_is_an_error_that_names_it(mysql_server: PrivateMysql) -> None:
    with pytest.raises(ServerError, match="binlog-colour"):
        mysql_server(MARIADB_10_11, binlog_colour="blue")


def test_server_and_its_files_go_when_the_test_process_is_killed() -> None:
    program = (
        "from tests.services.mysql.server import MysqlServer\n"
        "server = MysqlServer().start()\n"
        "print(server.pid, server.data.parent, flush=True)\n"
        "input()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout is not None
    pid, folder = child.stdout.readline().split()
    child.kill()
    child.communicate()
    deadline = time.monotonic() + 120
    while _alive(int(pid)):
        assert time.monotonic() < deadline, "the server outlived its test process"
        time.sleep(0.05)
    assert Path(folder).exists()
    scratch_folder("next")
    assert not Path(folder).exists(), "what a killed process left is deleted by the next one"


# ------------------------------------------------------------ databases


def test_database_of_one_test_goes_with_its_open_transactions(mysql: MysqlServer) -> None:
    with mysql.database("mine") as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY)")
        session = database.connect(autocommit=False)
        session.cursor().execute("INSERT INTO t VALUES (1)")
        assert database.query("SELECT count(*) FROM t") == [(0,)]
    assert mysql.query("SHOW DATABASES LIKE %s", database.name) == []
    with pytest.raises(pymysql.err.MySQLError):
        session.cursor().execute("SELECT 1")


def test_client_reads_what_the_server_holds(mysql_and_mariadb: MysqlDatabase) -> None:
    """Also where a driver's types cannot say it: a zero date is not NULL in `texts`."""
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id int, price decimal(10, 2), day date, span time(1), words text, bytes blob)")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO t VALUES (1, 1.5, '2024-02-29', '-838:59:59', 'né 🦆', x'00ff')")
        cursor.execute("INSERT INTO t VALUES (2, NULL, '0000-00-00', NULL, '', '')")
    span = -dt.timedelta(hours=838, minutes=59, seconds=59)
    assert rows(database, "SELECT * FROM t ORDER BY id") == [
        (1, Decimal("1.50"), dt.date(2024, 2, 29), span, "né 🦆", b"\x00\xff"),
        (2, None, None, None, "", b""),
    ]
    assert texts(database, "SELECT day, span, words FROM t ORDER BY id") == [
        (b"2024-02-29", b"-838:59:59.0", "né 🦆".encode()),
        (b"0000-00-00", None, b""),
    ]


# ------------------------------------------------------------ where the programs come from


def test_programs_are_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs(MYSQL_9)

    def fetch(*_: object) -> list[Path]:
        raise AssertionError("fetched again")

    monkeypatch.setattr(packages, "_fetch", fetch)
    assert programs(MYSQL_9) == found


def test_an_archive_that_debian_did_not_sign_is_refused_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "archive/dists/sid"
    index.mkdir(parents=True)
    (index / "Release").write_text("Suite: unstable\nCodename: sid\nComponents: main\nArchitectures: amd64\n")
    monkeypatch.setattr(packages, "ARCHIVE", f"file:{tmp_path / 'archive'}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ServerError, match="is not signed"):
        programs(MYSQL_9)
    assert list((tmp_path / "cache/replicator/mysql").iterdir()) == []


def event_kinds(server: MysqlServer) -> set[str]:
    """Kinds of the events in the server's newest binlog file."""
    newest = server.query("SHOW BINARY LOGS")[-1][0]
    return {str(event[2]) for event in server.query(f"SHOW BINLOG EVENTS IN '{newest}'")}


def _alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
