"""A server that is restored from a copy and written past the saved place is refused, also where names, numbers and sizes agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_sdk.errors import HistoryLostError
from tests.end_to_end.conftest import MakeMysqlPair
from tests.end_to_end.mysql_pair import MysqlPair
from tests.services.mysql import MysqlServer, copy_folder
from tests.services.mysql_fixtures import PrivateMysql
from tests.services.mysql_programs import MARIADB_10_11, MYSQL_9, Release

SERVERS = pytest.mark.parametrize(
    ("release", "gtid"), [(MYSQL_9, True), (MYSQL_9, False), (MARIADB_10_11, True), (MARIADB_10_11, False)]
)


def write(pair: MysqlPair, word: str, count: int) -> None:
    """Transactions of one size each, whatever the word."""
    pair.execute(*(f"INSERT INTO note VALUES ('{word} {number:04}')" for number in range(count)))


def put_back(server: MysqlServer, copy: Path) -> None:
    """Give the stopped server the copy's data and start it."""
    server.data.rename(copy.with_name(f"{copy.name}-after"))
    copy_folder(copy, server.data)
    server.start()


@SERVERS
@pytest.mark.parametrize("idle", [False, True])
def test_a_server_restored_in_place_and_written_past_the_saved_place_is_refused(
    release: Release, gtid: bool, idle: bool, mysql_server: PrivateMysql, make_mysql: MakeMysqlPair, tmp_path: Path
) -> None:
    """`idle`: the saved place is behind a rotation, where the file has no transaction yet."""
    server = mysql_server(release, gtid=gtid)
    with server.database() as database:
        pair = make_mysql(database)
        pair.assert_nothing_lost()
        server.stop()
        copy = tmp_path / "backup"
        copy_folder(server.data, copy)
        server.start()
        write(pair, "first", 20)
        if idle:
            server.execute("FLUSH BINARY LOGS")
        pair.assert_nothing_lost()
        server.stop()
        put_back(server, copy)
        write(pair, "other", 20)
        if idle:
            server.execute("FLUSH BINARY LOGS")
        write(pair, "other", 5)
        for _ in range(2):
            assert pair.fails(HistoryLostError, "restored from a copy")["code"] == "RPL-3783"


@SERVERS
def test_restarts_and_rotations_of_the_same_server_are_no_false_alarm(
    release: Release, gtid: bool, mysql_server: PrivateMysql, make_mysql: MakeMysqlPair
) -> None:
    server = mysql_server(release, gtid=gtid)
    with server.database() as database:
        pair = make_mysql(database)
        pair.assert_nothing_lost()
        pair.assert_nothing_lost()
        for stop in (server.stop, server.kill):
            pair.change()
            pair.assert_nothing_lost()
            stop()
            server.start()
            pair.assert_nothing_lost()
            server.execute("FLUSH BINARY LOGS")
            pair.assert_nothing_lost()
            pair.change()
            pair.assert_nothing_lost()


@SERVERS
def test_a_server_restored_to_a_place_behind_the_saved_one_goes_on(
    release: Release, gtid: bool, mysql_server: PrivateMysql, make_mysql: MakeMysqlPair, tmp_path: Path
) -> None:
    """What was replicated is in the copy, too: nothing is missing."""
    server = mysql_server(release, gtid=gtid)
    with server.database() as database:
        pair = make_mysql(database)
        write(pair, "first", 3)
        pair.assert_nothing_lost()
        write(pair, "later", 3)
        server.stop()
        copy = tmp_path / "backup"
        copy_folder(server.data, copy)
        server.start()
        write(pair, "never", 3)
        server.stop()
        put_back(server, copy)
        write(pair, "other", 3)
        pair.assert_nothing_lost()
