"""A server that is restored from a copy and written past the saved position is refused, also where names, numbers and sizes agree."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from replicator_sdk.errors import HistoryLostError
from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlServer, copy_folder

SERVERS = pytest.mark.parametrize(
    ("release", "gtid"), [(MYSQL_9, True), (MYSQL_9, False), (MARIADB_10_11, True), (MARIADB_10_11, False)]
)


def write(pipeline: MysqlPipeline, word: str, count: int) -> None:
    """Transactions of one size each, whatever the word."""
    pipeline.execute(*(f"INSERT INTO note VALUES ('{word} {number:04}')" for number in range(count)))


def put_back(server: MysqlServer, copy: Path) -> None:
    """Give the stopped server the copy's data and start it, in another second: a log says when it was written in seconds."""
    time.sleep(math.floor(time.time()) + 1 - time.time())
    server.data.rename(copy.with_name(f"{copy.name}-after"))
    copy_folder(copy, server.data)
    server.start()


@SERVERS
@pytest.mark.parametrize("idle", [False, True])
def test_a_server_restored_in_place_and_written_past_the_saved_position_is_refused(
    release: Release, gtid: bool, idle: bool, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline, tmp_path: Path
) -> None:
    """`idle`: the saved position is after a rotation, where the file has no transaction yet."""
    server = mysql_server(release, gtid=gtid)
    with server.database() as database:
        pipeline = make_mysql(database)
        pipeline.assert_nothing_lost()
        server.stop()
        copy = tmp_path / "backup"
        copy_folder(server.data, copy)
        server.start()
        write(pipeline, "first", 20)
        if idle:
            server.execute("FLUSH BINARY LOGS")
        pipeline.assert_nothing_lost()
        server.stop()
        put_back(server, copy)
        write(pipeline, "other", 20)
        if idle:
            server.execute("FLUSH BINARY LOGS")
        write(pipeline, "other", 5)
        for _ in range(2):
            assert pipeline.fails(HistoryLostError, "restored from a copy")["code"] == "RPL-3783"


@SERVERS
def test_restarts_and_rotations_of_the_same_server_are_no_false_alarm(
    release: Release, gtid: bool, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    server = mysql_server(release, gtid=gtid)
    with server.database() as database:
        pipeline = make_mysql(database)
        pipeline.assert_nothing_lost()
        pipeline.assert_nothing_lost()
        for stop in (server.stop, server.kill):
            pipeline.change()
            pipeline.assert_nothing_lost()
            stop()
            server.start()
            pipeline.assert_nothing_lost()
            server.execute("FLUSH BINARY LOGS")
            pipeline.assert_nothing_lost()
            pipeline.change()
            pipeline.assert_nothing_lost()


@SERVERS
def test_a_server_restored_to_a_position_after_the_saved_one_goes_on(
    release: Release, gtid: bool, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline, tmp_path: Path
) -> None:
    """What was replicated is in the copy, too: nothing is missing."""
    server = mysql_server(release, gtid=gtid)
    with server.database() as database:
        pipeline = make_mysql(database)
        write(pipeline, "first", 3)
        pipeline.assert_nothing_lost()
        write(pipeline, "later", 3)
        server.stop()
        copy = tmp_path / "backup"
        copy_folder(server.data, copy)
        server.start()
        write(pipeline, "never", 3)
        server.stop()
        put_back(server, copy)
        write(pipeline, "other", 3)
        pipeline.assert_nothing_lost()
