"""A pipeline that moves to another server goes on there, or is refused; it never goes on somewhere else in the log."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replicator_sdk.errors import HistoryLostError
from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.follows import follows
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase, MysqlServer, copy_folder
from tests.services.spark.session import INTERPRETER

BOTH = pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)


def replicate(primary: MysqlServer, replica: MysqlServer, *, gtid: bool = True) -> None:
    """Let a new server follow another new one."""
    if primary.is_mariadb:
        how, start = "MASTER_USE_GTID = slave_pos", "START SLAVE"
        address = f"MASTER_HOST = '{primary.host}', MASTER_PORT = {primary.port}, MASTER_USER = '{primary.user}',"
        replica.execute(f"CHANGE MASTER TO {address} MASTER_PASSWORD = '{primary.password}', {how}")
    else:
        [status] = primary.query("SHOW BINARY LOG STATUS")
        how = "SOURCE_AUTO_POSITION = 1" if gtid else f"SOURCE_LOG_FILE = '{status[0]}', SOURCE_LOG_POS = {status[1]}"
        address = f"SOURCE_HOST = '{primary.host}', SOURCE_PORT = {primary.port}, SOURCE_USER = '{primary.user}',"
        start = "START REPLICA"
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO {address} SOURCE_PASSWORD = '{primary.password}', SOURCE_SSL = 1, {how}"
        )
    replica.execute(start)


def catch_up(primary: MysqlServer, replica: MysqlServer) -> None:
    """Wait until the replica has everything."""
    position = "@@GLOBAL.gtid_binlog_pos" if primary.is_mariadb else "@@GLOBAL.gtid_executed"
    wanted, deadline = primary.query(f"SELECT {position}"), time.monotonic() + 120
    while replica.query(f"SELECT {position}") != wanted:
        assert time.monotonic() < deadline, "the replica does not catch up"
        time.sleep(0.05)


def promote(replica: MysqlServer) -> None:
    """End the replica's replication."""
    words = ("STOP SLAVE", "RESET SLAVE ALL") if replica.is_mariadb else ("STOP REPLICA", "RESET REPLICA ALL")
    for word in words:
        replica.execute(word)


def purge(server: MysqlServer) -> str:
    """Purge all files but the newest; returns its name."""
    newest, deadline = str(server.query("SHOW BINARY LOGS")[-1][0]), time.monotonic() + 120
    while len(server.query("SHOW BINARY LOGS")) > 1:  # MariaDB keeps those that a crash would still need
        assert time.monotonic() < deadline, "files are not purged"
        server.execute(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(0.05)
    return newest


@contextmanager
def two_servers(
    mysql_server: PrivateMysql, release: Release, make_mysql: MakeMysqlPipeline, *, gtid: bool = True
) -> Iterator[tuple[MysqlPipeline, MysqlDatabase]]:
    """A pipeline on a primary, and its database on a replica that follows it; `gtid` as the servers have it."""
    options: dict[str, object] = {"log_slave_updates": True} if release.is_mariadb else {}
    options["gtid"] = gtid
    primary, replica = mysql_server(release, **options), mysql_server(release, **options)
    replicate(primary, replica)
    with primary.database() as database:
        yield make_mysql(database), MysqlDatabase(replica, database.name)


@BOTH
def test_after_a_failover_the_pipeline_goes_on_at_the_replica(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """Changes before, around and after it, in files of other names and positions; nothing is lost and nothing doubled."""
    with two_servers(mysql_server, release, make_mysql) as (pipeline, there):
        there.server.execute("FLUSH BINARY LOGS")  # so that its places differ from the primary's
        pipeline.assert_nothing_lost()
        pipeline.change()
        pipeline.assert_nothing_lost()
        pipeline.change()
        catch_up(pipeline.database.server, there.server)
        pipeline.database.server.kill()
        promote(there.server)
        moved = pipeline.at(there)
        on_replica = MysqlPipeline(there, moved.replicator)
        on_replica.change()
        on_replica.execute("ALTER TABLE item ADD COLUMN place varchar(10) DEFAULT 'replica' AFTER id")
        on_replica.change()
        on_replica.assert_nothing_lost()
        on_replica.change()
        on_replica.assert_nothing_lost()
        pipeline.database.server.start()  # only to be dropped


@follows("RPL-3785")
@BOTH
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_replica_that_lost_what_was_replicated_is_refused(
    release: Release, rounds: int, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """However many transactions of its own it has made since."""
    with two_servers(mysql_server, release, make_mysql) as (pipeline, there):
        catch_up(pipeline.database.server, there.server)
        promote(there.server)  # before the last changes arrive
        pipeline.change()
        pipeline.assert_nothing_lost()
        for _ in range(rounds):
            MysqlPipeline(there, pipeline.replicator).change()
        moved = MysqlPipeline(there, pipeline.at(there).replicator)
        error = moved.fails(HistoryLostError, "")
        assert error["code"] == "RPL-3785"
        pipeline.change()
        pipeline.assert_nothing_lost()
        if rounds == 1:
            assert moved.fails(HistoryLostError, "")["code"] == "RPL-3785"
            moved.replicator.follow(error, "reset")
            moved.assert_nothing_lost()


def test_a_replica_that_lost_what_was_replicated_is_refused_without_strict_gtids(
    mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """Its own transactions have the numbers of those that it lacks, and higher ones."""
    with two_servers(mysql_server, MARIADB_10_11, make_mysql, gtid=False) as (pipeline, there):
        catch_up(pipeline.database.server, there.server)
        promote(there.server)
        pipeline.change()
        pipeline.assert_nothing_lost()
        for _ in range(3):
            MysqlPipeline(there, pipeline.replicator).change()
        moved = MysqlPipeline(there, pipeline.at(there).replicator)
        assert moved.fails(HistoryLostError, "")["code"] == "RPL-3785"


@BOTH
def test_a_foreign_server_is_refused(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """It has a database and tables of the same names; MariaDB even has the same server id."""
    here, there = mysql_server(release, server_id=7), mysql_server(release, server_id=7)
    with here.database() as database:
        pipeline = make_mysql(database)
        pipeline.assert_nothing_lost()
        there.execute(f"CREATE DATABASE {database.name}")
        foreign = MysqlPipeline(MysqlDatabase(there, database.name), pipeline.replicator)
        foreign.create()
        for _ in range(5):
            foreign.change()
        assert pipeline.at(there).fails(HistoryLostError, "server")["code"] in {"RPL-3785", "RPL-3783"}
        pipeline.change()
        pipeline.assert_nothing_lost()


def test_a_server_of_the_other_make_is_refused(mysql_pipeline: MysqlPipeline, mariadb: MysqlServer) -> None:
    mysql_pipeline.assert_nothing_lost()
    mysql_pipeline.at(mariadb).fails(HistoryLostError, "mariadb")
    mysql_pipeline.assert_nothing_lost()


@follows("RPL-3784")
def test_without_gtids_another_server_is_refused(mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline) -> None:
    """Even a replica: which position of its log is the pipeline's is not known."""
    primary, replica = mysql_server(MYSQL_9, gtid=False), mysql_server(MYSQL_9, gtid=False)
    replicate(primary, replica, gtid=False)
    with primary.database() as database:
        pipeline = make_mysql(database)
        pipeline.assert_nothing_lost()
        pipeline.change()
        promote(replica)
        moved = MysqlPipeline(MysqlDatabase(replica, database.name), pipeline.at(replica).replicator)
        error = moved.fails(HistoryLostError, "without GTIDs")
        assert error["code"] == "RPL-3784"
        pipeline.assert_nothing_lost()
        assert moved.fails(HistoryLostError, "without GTIDs")["code"] == "RPL-3784"
        moved.replicator.follow(error, "reset")
        moved.assert_nothing_lost()


def assessed(pipeline: MysqlPipeline) -> str:
    """What `replicator assess` prints."""
    replicator = pipeline.replicator
    command = [*replicator.command, "assess", str(replicator.folder / "pipeline.json")]
    environment = {**os.environ, **INTERPRETER, **replicator.environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout


@BOTH
def test_a_purged_log_is_lost_history_and_stays_so(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """The error names the file; no run takes another place instead."""
    server = mysql_server(release)
    with server.database() as database:
        pipeline = make_mysql(database)
        pipeline.assert_nothing_lost()
        pipeline.change()
        server.execute("FLUSH BINARY LOGS")
        pipeline.change()
        assert "RPL-3782" not in assessed(pipeline)
        newest = purge(server)
        assert "RPL-3782" in assessed(pipeline)
        for _ in range(2):
            error = pipeline.fails(HistoryLostError, "binlog.000001")
            assert error["code"] == "RPL-3782"
            assert newest in error["message"]


def test_a_log_purged_at_the_replica_is_lost_history(mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline) -> None:
    with two_servers(mysql_server, MYSQL_9, make_mysql) as (pipeline, there):
        pipeline.assert_nothing_lost()
        pipeline.change()
        catch_up(pipeline.database.server, there.server)
        there.server.execute("FLUSH BINARY LOGS")
        purge(there.server)
        promote(there.server)
        assert pipeline.at(there).fails(HistoryLostError, "purged")["code"] == "RPL-3782"
        pipeline.assert_nothing_lost()


@follows("RPL-3783")
@BOTH
def test_a_log_that_was_reset_is_lost_history(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """The files begin again under the old names, and grow beyond the saved position."""
    server = mysql_server(release)
    with server.database() as database:
        pipeline = make_mysql(database)
        pipeline.assert_nothing_lost()
        server.execute("RESET MASTER" if server.is_mariadb else "RESET BINARY LOGS AND GTIDS")
        for _ in range(40):
            pipeline.change()
        error = pipeline.fails(HistoryLostError, "not the file that was read")
        assert error["code"] == "RPL-3783"
        pipeline.replicator.follow(error, "reset")
        pipeline.assert_nothing_lost()


def test_a_server_restored_from_an_older_copy_is_refused(
    mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline, tmp_path: Path
) -> None:
    """It has the same identity and files of the same names, but not what was replicated."""
    server = mysql_server(MYSQL_9)
    with server.database() as database:
        pipeline = make_mysql(database)
        server.stop()
        copy = tmp_path / "backup"
        server.data.rename(copy)
        copy_folder(copy, server.data)
        server.start()
        for _ in range(3):
            pipeline.change()
        pipeline.assert_nothing_lost()
        server.stop()
        server.data.rename(tmp_path / "after")
        copy_folder(copy, server.data)
        server.start()
        for number in range(30):
            pipeline.execute(f"INSERT INTO note VALUES ('other {number}')")
        assert pipeline.fails(HistoryLostError, "not the file that was read")["code"] == "RPL-3783"
