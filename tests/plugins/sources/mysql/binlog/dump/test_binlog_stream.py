from __future__ import annotations

import threading
import time

import pytest

from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError, RetryableError
from replicator_source_mysql.binlog.dump import binlog_stream, handshake
from replicator_source_mysql.binlog.dump.binlog_stream import BinlogStream
from replicator_source_mysql.binlog.event import FilePosition, Kind
from tests.plugins.sources.mysql.binlog.log_reading import events_since, kinds, log_end, read_until, stream
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase
from tests.services.network import NetworkTo

RELEASES = pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)


def test_reading_goes_on_where_an_event_ended(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    start = log_end(database.server)
    for key in range(3):
        database.execute(f"INSERT INTO t VALUES ({key})")
    (events,) = events_since(database.server, start)
    commits = events.where((Kind.XID,))
    assert len(commits) == 3
    assert events.place(int(commits[-1])) == log_end(database.server)
    (rest,) = events_since(database.server, events.place(int(commits[1])))
    assert len(rest.where((Kind.XID,))) == 1


def test_a_start_by_gtids_leaves_out_what_was_executed(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    variable = "@@gtid_current_pos" if database.is_mariadb else "@@gtid_executed"
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    ((executed,),) = database.query(f"SELECT {variable}")
    database.execute("INSERT INTO t VALUES (2)")
    windows = events_since(database.server, str(executed))
    assert kinds(windows)["XID"] == 1
    assert windows[-1].place(len(windows[-1]) - 1) == log_end(database.server)


def test_a_heartbeat_reports_how_far_an_idle_log_is_read(mysql_and_mariadb: MysqlDatabase) -> None:
    end = log_end(mysql_and_mariadb.server)
    with stream(mysql_and_mariadb.server, end) as opened:
        heard, deadline = opened.heard, time.monotonic() + 60
        assert heard is None
        while heard is None and time.monotonic() < deadline:
            opened.receive(0.2)
            opened.take(100)
            heard = opened.heard
    assert heard == end


def test_closing_ends_a_waiting_receive_in_another_thread(mysql_and_mariadb: MysqlDatabase) -> None:
    errors: list[RetryableError] = []
    with stream(mysql_and_mariadb.server, log_end(mysql_and_mariadb.server)) as opened:

        def wait() -> None:
            try:
                while True:
                    opened.receive(20)
                    opened.take(10)
            except RetryableError as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.3)
        begun = time.monotonic()
        opened.close()
        thread.join(120)
        assert not thread.is_alive()
    assert time.monotonic() - begun < 15
    assert [error.code for error in errors] == ["RPL-3713"]


def test_a_connection_lost_without_a_word_is_an_error(
    mysql_and_mariadb: MysqlDatabase, network: NetworkTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall that forgets a connection closes nothing: without heartbeats it looks as if nothing happened at the source."""
    monkeypatch.setattr(binlog_stream, "_SILENT_SECONDS", 3.0)
    monkeypatch.setattr(binlog_stream, "_SEARCHING_SECONDS", 5.0)
    database = mysql_and_mariadb
    end, proxy = log_end(database.server), network(database.server.port)
    with stream(database.server, end, port=proxy.port) as opened:
        quiet = time.monotonic() + 4
        while opened.heard is None or time.monotonic() < quiet:  # heartbeats come, so an idle server is no error
            assert time.monotonic() < quiet + 120
            opened.receive(0.2)
            opened.take(100)
        proxy.freeze()
        began = time.monotonic()
        with pytest.raises(RetryableError, match="RPL-3717"):
            read_until(opened, FilePosition(end.file, end.position + 1))
        assert 2.5 < time.monotonic() - began < 60


@RELEASES
def test_a_purged_file_is_lost_history_and_a_rotation_is_followed(mysql_server: PrivateMysql, release: Release) -> None:
    server = mysql_server(release)
    with server.database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        start = log_end(server)
        database.execute("INSERT INTO t VALUES (1)")
        server.execute("FLUSH BINARY LOGS")
        database.execute("INSERT INTO t VALUES (2)")
        end = log_end(server)
        assert end.file != start.file
        windows = events_since(server, start)
        assert kinds(windows)["XID"] == 2
        assert windows[-1].place(len(windows[-1]) - 1) == end
        while (start.file,) in [row[:1] for row in server.query("SHOW BINARY LOGS")]:
            server.execute(f"PURGE BINARY LOGS TO '{end.file}'")  # it passes over a file that a dump just ended uses
            time.sleep(0.1)
        with pytest.raises(HistoryLostError, match="RPL-3805"), stream(server, start) as opened:
            read_until(opened, end)


@RELEASES
def test_a_server_without_checksums_is_read_also_when_they_are_switched_on(
    mysql_server: PrivateMysql, release: Release
) -> None:
    server = mysql_server(release, binlog_checksum="NONE")
    with server.database() as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        start = log_end(server)
        database.execute("INSERT INTO t VALUES (1)")
        assert kinds(events_since(server, start))["XID"] == 1
        server.execute("SET GLOBAL binlog_checksum = 'CRC32'")
        database.execute("INSERT INTO t VALUES (2)")
        assert kinds(events_since(server, start))["XID"] == 2


def test_a_position_beyond_the_log_is_lost_history(mysql_and_mariadb: MysqlDatabase) -> None:
    end = log_end(mysql_and_mariadb.server)
    beyond = FilePosition(end.file, end.position + 1_000_000)
    with pytest.raises(HistoryLostError), stream(mysql_and_mariadb.server, beyond) as opened:
        read_until(opened, beyond)


def test_a_second_reader_with_our_server_id_ends_the_first_with_an_error(mysql_and_mariadb: MysqlDatabase) -> None:
    database = mysql_and_mariadb
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    start = log_end(database.server)
    with stream(database.server, start) as first:
        first.receive(0.3)
        first.take(10)
        with stream(database.server, start), pytest.raises(ReplicatorError):
            follow(first, database)


def follow(opened: BinlogStream, database: MysqlDatabase) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        database.execute("REPLACE INTO t VALUES (1)")
        opened.receive(0.2)
        opened.take(100)


def test_another_version_of_the_library_is_refused(
    mysql_database: MysqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "_VERSION", "0.9")
    with (
        pytest.raises(NeedsUserError, match=r"RPL-3711.*0\.9"),
        stream(mysql_database.server, log_end(mysql_database.server)),
    ):
        pass
