"""The PostgreSQL servers of the tests do what the tests rely on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.services.artifacts import POSTGRES
from tests.services.certificates import issue
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase, PostgresServer
from tests.services.processes import scratch_folder


@pytest.mark.parametrize("postgres_database", sorted(POSTGRES), indirect=True)
def test_every_supported_version_decodes_its_log_with_pgoutput(postgres_database: PostgresDatabase) -> None:
    postgres_database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    postgres_database.execute("CREATE PUBLICATION p FOR TABLE t")
    postgres_database.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    postgres_database.execute("INSERT INTO t VALUES (1)")
    changes = postgres_database.execute(
        "SELECT get_byte(data, 0) FROM pg_logical_slot_peek_binary_changes("
        "'s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
    )
    assert bytes(kind for (kind,) in changes) == b"BRIC"
    assert postgres_database.execute("SHOW server_version_num")[0][0].startswith(str(postgres_database.version))


def test_database_of_one_test_goes_with_its_slots_and_sessions(private_postgres: PrivatePostgres) -> None:
    server = private_postgres()
    with server.database() as database:
        database.execute("SELECT pg_create_logical_replication_slot('left_over', 'pgoutput')")
        session = database.connect()
    assert server.execute("SELECT count(*) FROM pg_replication_slots") == [(0,)]
    assert server.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'shop%'") == [(0,)]
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")


def test_wrong_password_is_refused(postgres_database: PostgresDatabase) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        postgres_database.connect(password="wrong")


def test_killed_server_keeps_what_it_committed(private_postgres: PrivatePostgres) -> None:
    server = private_postgres()
    server.execute("CREATE TABLE t AS SELECT 1 AS id")
    server.kill()
    assert not server.running
    with pytest.raises(psycopg.OperationalError):
        server.execute("SELECT 1")
    server.start()
    assert server.execute("SELECT id FROM t") == [(1,)]


def test_restart_changes_settings_and_keeps_the_port(private_postgres: PrivatePostgres) -> None:
    server = private_postgres(max_slot_wal_keep_size="1MB")
    port = server.port
    assert server.execute("SHOW max_slot_wal_keep_size") == [("1MB",)]
    server.restart(max_slot_wal_keep_size=None, work_mem="7MB")
    assert server.execute("SHOW max_slot_wal_keep_size") == [("-1",)]
    assert server.execute("SHOW work_mem") == [("7MB",)]
    assert server.port == port


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_tls_server_can_be_verified(tls_postgres: PostgresServer, host: str) -> None:
    with tls_postgres.connect(host=host, sslmode="verify-full") as connection:
        encrypted = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
    assert encrypted == (True,)


def test_tls_server_refuses_plain_text(tls_postgres: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        tls_postgres.connect(sslmode="disable")


def test_tls_server_is_not_trusted_by_another_authority(tls_postgres: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        tls_postgres.connect(sslrootcert=str(issue(tmp_path).authority))


def test_server_and_its_files_go_when_the_test_process_is_killed() -> None:
    program = (
        "from tests.services.postgres.server import PostgresServer\n"
        "server = PostgresServer().start()\n"
        "print(server._process.pid, server._folder, flush=True)\n"
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


def _alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
