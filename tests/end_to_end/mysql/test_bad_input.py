"""What goes wrong outside a MySQL or MariaDB pipeline ends in one line with a code, the next step, a documented exit code.

Nothing is lost: once it is fixed, the next run ends equal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader

from replicator_sdk.errors import DataError, NeedsUserError, RetryableError
from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase
from tests.services.processes import free_port

BOTH = pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)


@contextmanager
def account(pipeline: MysqlPipeline, *grants: str) -> Iterator[dict[str, Any]]:
    """An account of its own with these grants; gives the source's settings for it."""
    name, server = f"u{pipeline.database.name[-10:]}", pipeline.database.server
    server.execute(f"CREATE USER '{name}'@'%%' IDENTIFIED BY 'battery staple'")
    try:
        for grant in grants:
            server.execute(f"GRANT {grant} TO '{name}'@'%%'")
        # In clear over loopback MySQL's accounts would need the server's public key.
        yield {
            "user": name, "password": "battery staple", "sslMode": "verify-full",
            "sslRootCert": str(server.certificate.authority),
        }  # fmt: skip
    finally:
        server.execute(f"DROP USER '{name}'@'%%'")


# ------------------------------------------------------------ who may read


def test_without_the_right_to_replicate_the_error_has_the_statement_that_grants_it(
    each_pipeline: MysqlPipeline,
) -> None:
    with account(each_pipeline, "SELECT, LOCK TABLES ON *.*") as settings:
        error = each_pipeline.with_source(**settings).fails(NeedsUserError, "privilege", secret="battery staple")
        assert "grants" in error["hint"]
    each_pipeline.assert_nothing_lost()


def test_a_table_that_may_not_be_read_is_named(mysql_pipeline: MysqlPipeline) -> None:
    monitor = "BINLOG MONITOR, SLAVE MONITOR" if mysql_pipeline.database.is_mariadb else "REPLICATION CLIENT"
    grants = (f"REPLICATION SLAVE, {monitor} ON *.*", f"SELECT ON {mysql_pipeline.database.name}.note")
    with account(mysql_pipeline, *grants) as settings:
        mysql_pipeline.with_source(**settings).fails(NeedsUserError, "item", secret="battery staple")
    mysql_pipeline.assert_nothing_lost()


def test_a_wrong_password_needs_the_user(mysql_pipeline: MysqlPipeline) -> None:
    wrong = mysql_pipeline.with_source(password="wrong battery")
    assert wrong.fails(NeedsUserError, "Access denied", secret="wrong battery")["code"] == "RPL-3801"
    mysql_pipeline.assert_nothing_lost()


def test_a_server_whose_certificate_is_not_trusted_is_refused(mysql_pipeline: MysqlPipeline) -> None:
    """`verify-full` is what an omitted `sslMode` means, and the system's authorities do not know the server's."""
    error = mysql_pipeline.with_source(sslMode="verify-full").fails(NeedsUserError, "certificate")
    assert error["code"] == "RPL-3803"
    assert "`sslRootCert`" in error["hint"]
    mysql_pipeline.assert_nothing_lost()


@BOTH
def test_a_server_that_refuses_connections_in_clear_is_named(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    server = mysql_server(release, require_secure_transport=True)
    with server.database() as database:
        pipeline = make_mysql(database)
        error = pipeline.fails(NeedsUserError, "")  # MariaDB only says that access is denied
        assert error["code"] == ("RPL-3801" if server.is_mariadb else "RPL-3803")
        assert "TLS" in error["hint"] or "sslMode" in error["hint"]
        trusted = {"sslMode": "verify-full", "sslRootCert": str(server.certificate.authority)}
        pipeline.with_source(**trusted).assert_nothing_lost()


def test_an_unreachable_server_is_retried_for_the_given_time(mysql_pipeline: MysqlPipeline) -> None:
    started = time.monotonic()
    assert mysql_pipeline.with_source(port=free_port()).fails(RetryableError, "127.0.0.1")["code"] == "RPL-3804"
    assert time.monotonic() - started > 3
    mysql_pipeline.assert_nothing_lost()


# ------------------------------------------------------------ what the log has


@BOTH
def test_a_server_without_a_binlog_is_refused(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    server = mysql_server(release, gtid=False, log_bin=None if release.is_mariadb else False)
    with server.database() as database:
        pipeline = make_mysql(database)
        pipeline.fails(NeedsUserError, "binlog")
        server.restart(log_bin="binlog")
        pipeline.assert_nothing_lost()


@BOTH
def test_a_server_that_logs_statements_is_refused(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    server = mysql_server(release, binlog_format="STATEMENT")
    with server.database() as database:
        pipeline = make_mysql(database)
        pipeline.fails(NeedsUserError, "STATEMENT")
        server.restart(binlog_format="ROW")
        pipeline.assert_nothing_lost()


def test_a_session_that_logs_statements_stops_the_pipeline_before_its_change(each_pipeline: MysqlPipeline) -> None:
    """Any session with the right may do so, whatever the server's setting; only a new snapshot helps, never silence."""
    each_pipeline.assert_nothing_lost()
    each_pipeline.execute(
        "INSERT INTO item VALUES (1000, 'before')",
        "SET SESSION binlog_format = STATEMENT",
        "UPDATE item SET name = 'by statement' WHERE id = 1",
        "SET SESSION binlog_format = ROW",
        "INSERT INTO item VALUES (1001, 'after')",
    )
    for _ in range(2):
        error = each_pipeline.fails(NeedsUserError, "by a statement")
        assert error["code"] == "RPL-3793"
        assert error["table"].endswith(".item")


def test_a_statement_on_another_table_stops_nothing(each_pipeline: MysqlPipeline) -> None:
    each_pipeline.execute("CREATE TABLE elsewhere (id int PRIMARY KEY)")
    each_pipeline.assert_nothing_lost()
    each_pipeline.execute("SET SESSION binlog_format = STATEMENT", "INSERT INTO elsewhere VALUES (1)")
    each_pipeline.change()
    each_pipeline.assert_nothing_lost()


def test_a_character_set_that_is_not_supported_is_named_and_the_other_tables_go_on(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline
) -> None:
    pipeline = make_mysql(mysql_and_mariadb, "word", "plain")
    pipeline.execute(
        "CREATE TABLE word (id int PRIMARY KEY, text varchar(20) CHARACTER SET eucjpms)",
        "CREATE TABLE plain (id int PRIMARY KEY)",
        "INSERT INTO word VALUES (1, '東京')",
        "INSERT INTO plain VALUES (1)",
    )
    error = pipeline.fails(NeedsUserError, "eucjpms")
    assert error["code"] == "RPL-3732"
    assert error["table"].endswith(".word")
    assert "plain" not in pipeline.differences()
    pipeline.execute("ALTER TABLE word MODIFY text varchar(20) CHARACTER SET utf8mb4")
    pipeline.assert_nothing_lost()


def test_a_value_out_of_the_standard_types_range_is_named_and_can_be_replaced(
    each_pipeline: MysqlPipeline, make_mysql: MakeMysqlPipeline
) -> None:
    """`zeroDates: fail` makes a zero date such a value."""
    each_pipeline.execute("ALTER TABLE item ADD COLUMN day date")
    strict = each_pipeline.with_source(zeroDates="fail")
    strict.assert_nothing_lost()
    each_pipeline.execute("SET SESSION sql_mode = ''", "UPDATE item SET day = '0000-00-00' WHERE id = 7")
    error = strict.fails(DataError, "day")
    assert error["table"].endswith("item")
    each_pipeline.assert_nothing_lost()


# ------------------------------------------------------------ tables that go and come


def test_a_table_dropped_and_created_again_joins_with_its_own_snapshot(each_pipeline: MysqlPipeline) -> None:
    """While no replicator runs: the log has rows of the old table, the drop, and rows of a table of another structure."""
    each_pipeline.assert_nothing_lost()
    each_pipeline.change()
    each_pipeline.execute(
        "DROP TABLE item",
        "CREATE TABLE item (code varchar(10), id bigint, PRIMARY KEY (code, id))",
        "INSERT INTO item VALUES ('a', 1), ('b', 2)",
        "UPDATE item SET id = 3 WHERE code = 'a'",
    )
    each_pipeline.assert_nothing_lost()
    each_pipeline.execute("INSERT INTO item VALUES ('c', 3)", "DELETE FROM item WHERE code = 'b'")
    each_pipeline.assert_nothing_lost()


def test_a_table_dropped_and_created_again_while_the_pipeline_runs_joins_again(each_pipeline: MysqlPipeline) -> None:
    quick = each_pipeline.with_settings(
        newTablesIntervalSeconds=0.5, tables=[{"database": each_pipeline.database.name, "table": "*"}]
    )
    running = quick.replicator.start()
    running.said("streaming")
    for round_ in range(2):
        each_pipeline.execute(
            "DROP TABLE item",
            f"CREATE TABLE item (id int PRIMARY KEY, name varchar(40), r{round_} int DEFAULT {round_})",
            "INSERT INTO item (id, name) VALUES (1, 'again')",
        )
        time.sleep(0.3)
    assert running.stop().status in {0, 143}
    quick.assert_nothing_lost()


def test_a_named_table_that_is_dropped_for_good_needs_the_user(mysql_pipeline: MysqlPipeline) -> None:
    mysql_pipeline.assert_nothing_lost()
    mysql_pipeline.execute("DROP TABLE item")
    mysql_pipeline.fails(NeedsUserError, "item")


# ------------------------------------------------------------ who else reads the log


def test_a_second_reader_under_our_server_id_costs_nothing(each_pipeline: MysqlPipeline) -> None:
    """The server throws one of the two out; the pipeline comes back for as long as its retries allow."""
    server_id = 2_000_000_000 + free_port()
    pipeline = each_pipeline.with_source(serverId=server_id)
    running = pipeline.replicator.start()
    running.said("streaming")
    server = pipeline.database.server
    address = {"host": server.host, "port": server.port, "user": server.user, "passwd": server.password}
    for _ in range(2):
        stranger = BinLogStreamReader(
            connection_settings=address, server_id=server_id, blocking=False, is_mariadb=server.is_mariadb
        )
        next(iter(stranger), None)
        pipeline.change()
        time.sleep(1)
        stranger.close()
    ended = running.stop()
    assert ended.status in {0, 143, NeedsUserError.exit_code}, ended.messages
    pipeline.assert_nothing_lost()


def test_a_second_pipeline_of_one_name_and_server_id_is_named_by_its_error(mysql_pipeline: MysqlPipeline) -> None:
    """Two runs of one pipeline: the second is refused before it reaches the server."""
    first = mysql_pipeline.replicator.start()
    first.said("streaming")
    mysql_pipeline.fails(NeedsUserError, "already running", seconds=90)
    mysql_pipeline.change()
    assert first.stop().status in {0, 143}
    mysql_pipeline.assert_nothing_lost()
