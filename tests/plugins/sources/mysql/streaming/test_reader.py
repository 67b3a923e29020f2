"""The reader as a replica: encrypted, idle, interrupted, and beside another client."""

from __future__ import annotations

import time

import pymysql
import pytest

from replicator_sdk import ChangeBatch
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.streaming import schema_baseline as baseline
from tests.plugins.sources.mysql.pump import Pump
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11
from tests.services.mysql.server import MysqlDatabase

_UNKNOWN_XID = 1397


@pytest.fixture
def shop(mysql_and_mariadb: MysqlDatabase) -> MysqlDatabase:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    return database


def test_snapshot_and_log_come_through_a_verified_connection(shop: MysqlDatabase) -> None:
    authority = shop.server.certificate.authority
    pump = Pump(shop, "t", ssl_mode="verify-full", ssl_root_cert=authority, host="localhost")
    pump.prepare()
    shop.execute("INSERT INTO t VALUES (1, 'a')")
    assert pump.snapshot("t")[1].num_rows == 1
    assert len(pump.read().changes("t")) == 1


def test_a_table_that_is_dropped_while_it_is_checked_has_the_attempt_repeated(shop: MysqlDatabase) -> None:
    with pytest.raises(RetryableError, match="RPL-3811"), diagnosed("capturing tables"):
        shop.execute("SHOW CREATE TABLE gone")


def test_the_offset_of_an_idle_source_follows_changes_of_other_tables(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    with shop.server.database() as other:
        start = pump.prepare()
        other.execute("CREATE TABLE u (id INT)")
        other.execute("INSERT INTO u VALUES (1)")
        run = pump.read()
    assert run.events == []
    assert start < run.emitter.last_offset


def test_a_second_client_with_our_server_id_ends_the_first_with_a_reason(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t", server_id=4_000_000_001)
    pump.prepare()
    with pytest.raises(NeedsUserError, match="RPL-3807"):
        meet_another(pump, shop)


def meet_another(pump: Pump, shop: MysqlDatabase) -> None:
    """Another reader with the same id comes while the first one is reading."""
    with pump.running() as first:
        shop.execute("INSERT INTO t VALUES (1, 'a')")
        first.wait_until(lambda: len(first.emitter.closed_windows) > 0)
        other = Pump(shop, "t", server_id=4_000_000_001)
        other.prepare()
        with other.running(CollectingEmitter()):
            first.wait_until(lambda: first.error is not None)


def test_changes_in_a_rolled_back_savepoint_do_not_arrive(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (1, 'a')")
        cursor.execute("SAVEPOINT s")
        cursor.execute("INSERT INTO t VALUES (2, 'b')")
        cursor.execute("ROLLBACK TO s")
        cursor.execute("INSERT INTO t VALUES (3, 'c')")
        cursor.execute("COMMIT")
    assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == [1, 3]


def test_rows_of_a_rolled_back_transaction_that_the_server_has_logged_do_not_arrive(shop: MysqlDatabase) -> None:
    """MariaDB logs one that has made a temporary table, with what was undone."""
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        for statement in (
            *("BEGIN", "INSERT INTO t VALUES (1, 'no')", "CREATE TEMPORARY TABLE a (i INT)", "ROLLBACK"),
            *("BEGIN", "INSERT INTO t VALUES (2, 'yes')", "SAVEPOINT one", "INSERT INTO t VALUES (3, 'no')"),
            *(
                "SAVEPOINT `Two`",
                "INSERT INTO t VALUES (4, 'no')",
                "CREATE TEMPORARY TABLE b (i INT)",
                "ROLLBACK TO two",
            ),
            *("INSERT INTO t VALUES (5, 'no')", "ROLLBACK TO One", "INSERT INTO t VALUES (6, 'yes')", "COMMIT"),
            *("BEGIN", "INSERT INTO t VALUES (7, 'no')", "DROP TEMPORARY TABLE a", "ROLLBACK"),
        ):
            cursor.execute(statement)
    assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == [2, 6]


@pytest.mark.parametrize("rotated", [False, True])
def test_a_prepared_transaction_arrives_when_it_commits_also_over_a_restart(shop: MysqlDatabase, rotated: bool) -> None:
    """Between prepare and commit another transaction commits and the reader is started again."""
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x1'", "INSERT INTO t VALUES (1, 'prepared')", "XA END 'x1'", "XA PREPARE 'x1'"):
            cursor.execute(statement)
        shop.execute("INSERT INTO t VALUES (2, 'meanwhile')")
        if rotated:
            shop.execute("FLUSH BINARY LOGS")
        assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == [2]
    commit_prepared(shop, "x1")
    shop.execute("INSERT INTO t VALUES (3, 'after')")
    assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == [1, 3]


def commit_prepared(database: MysqlDatabase, name: str) -> None:
    """In another session; MariaDB does not know the transaction until it has noticed that its own session is gone."""
    for _ in range(1200):
        try:
            database.execute(f"XA COMMIT '{name}'")
        except pymysql.OperationalError as error:
            if error.args[0] != _UNKNOWN_XID:
                raise
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"{name} cannot be committed")


def test_a_prepared_transaction_that_is_rolled_back_never_arrives(shop: MysqlDatabase) -> None:
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        for statement in (
            *("XA START 'x1'", "INSERT INTO t VALUES (1, 'no')", "XA END 'x1'", "XA PREPARE 'x1'", "XA ROLLBACK 'x1'"),
            *("XA START 'x2'", "INSERT INTO t VALUES (2, 'yes')", "XA END 'x2'", "XA COMMIT 'x2' ONE PHASE"),
        ):
            cursor.execute(statement)
    assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == [2]


def test_changes_of_a_table_without_transactions_arrive(shop: MysqlDatabase) -> None:
    shop.execute("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM")
    pump = Pump(shop, "m")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO m VALUES (1)")
        cursor.execute("ROLLBACK")
    shop.execute("UPDATE m SET id = 2")
    assert [op for op, *_ in pump.read().changes("m")] == ["I", "U"]


def test_a_rollback_to_a_savepoint_after_rows_of_a_table_that_is_not_captured_stops_nothing(
    shop: MysqlDatabase,
) -> None:
    """The table has no transactions, so its rows stay in the log; those of the captured table are not there."""
    shop.execute("CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM")
    pump = Pump(shop, "t")
    pump.prepare()
    with shop.connect() as connection, connection.cursor() as cursor:
        for statement in (
            "BEGIN",
            "SAVEPOINT s",
            "INSERT INTO m VALUES (1)",
            "ROLLBACK TO s",
            "INSERT INTO t VALUES (1, 'a')",
        ):
            cursor.execute(statement)
        connection.commit()
    assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == [1]


def test_reading_does_not_begin_after_a_prepared_transaction(
    shop: MysqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows would be in neither the snapshot nor the log that is read."""
    monkeypatch.setattr(baseline, "_PAUSE_SECONDS", 0.01)
    with shop.connect() as connection, connection.cursor() as cursor:
        for statement in ("XA START 'y'", "INSERT INTO t VALUES (1, 'early')", "XA END 'y'", "XA PREPARE 'y'"):
            cursor.execute(statement)
    try:
        with pytest.raises(RetryableError, match="RPL-3796"):
            Pump(shop, "t").prepare()
    finally:
        with shop.connect() as connection, connection.cursor() as cursor:
            cursor.execute("XA COMMIT 'y'")


class SlowEmitter(CollectingEmitter):
    """Holds the reader back once, for longer than the server waits for others."""

    held = False

    def emit_batch(self, batch: ChangeBatch) -> None:
        if not self.held:
            self.held = True
            time.sleep(3)
        super().emit_batch(batch)


def test_a_reader_that_is_held_back_is_not_disconnected(mysql_server: PrivateMysql) -> None:
    """The server's own patience with a replica that does not read is a second here."""
    server = mysql_server(MARIADB_10_11, net_write_timeout=1)
    with server.database() as database:
        database.execute("CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
        pump = Pump(database, "big")
        pump.prepare()
        for _ in range(25):
            database.execute("INSERT INTO big (b) VALUES (REPEAT('x', 1000000))")
        target = pump.source.latest_offset()
        with pump.running(SlowEmitter()) as run:
            run.wait_for(target)
        assert len(run.changes("big")) == 25


def test_every_offset_has_the_gtids_the_server_has_at_its_position(mysql_server: PrivateMysql) -> None:
    """Also where MariaDB's compressed events are taken apart, in a log that several servers wrote."""
    server = mysql_server(MARIADB_10_11, log_bin_compress=True, log_bin_compress_min_len=10)
    with server.database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(200))")
        pump = Pump(database, "t")
        pump.prepare()
        with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for number in range(300):
                cursor.execute(f"SET SESSION server_id = {number % 3 + 100}")
                if number % 10 == 0:
                    cursor.execute(f"CREATE OR REPLACE VIEW v AS SELECT 'a statement that is worth it, {number}' AS a")
                cursor.execute("INSERT INTO t VALUES (%s, repeat('long ', %s))", (number, number % 40))
                connection.commit()
        ended = [window.commits for window in pump.read().emitter.closed_windows if window.commits]
        offsets = [commits.offset_at(i) for commits in ended for i in range(len(commits))]
        assert len(offsets) >= 300
        for offset in offsets[::5]:
            assert isinstance(offset, MySqlOffset)
            [[there]] = server.query(f"SELECT BINLOG_GTID_POS('{offset.file}', {offset.position})")
            assert str(offset.gtids) == there


def test_a_log_that_was_switched_on_just_now_has_no_gtids_yet(mysql_server: PrivateMysql) -> None:
    server = mysql_server(MARIADB_10_11)
    with server.database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        server.execute("RESET MASTER")
        pump = Pump(database, "t")
        pump.prepare()
        for number in range(3):
            database.execute(f"INSERT INTO t VALUES ({number})")
            assert len(pump.read().changes("t")) == 1
