"""MariaDB's transactions of two GTID domains: their order is that of each server's log, and servers may differ in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk import TableId
from replicator_sdk.errors import FencedError, HistoryLostError
from tests.end_to_end.mysql.test_failover import catch_up, promote, replicate
from tests.end_to_end.replicator import mysql_source
from tests.follows import follows
from tests.plugins.sources.mysql.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11
from tests.services.mysql.server import MysqlDatabase

_INSERT = "INSERT INTO t VALUES ({0}, 'domain {0}')"


def _execute(db: MysqlDatabase, domain: int, statement: str, number: int = 0) -> None:
    """A transaction of a domain; with `number` also the GTID that it has at all servers."""
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION gtid_domain_id = {domain}")
        if number:
            cursor.execute(f"SET SESSION server_id = 77, gtid_seq_no = {number}")
        cursor.execute(statement)


def ends_after_commit(pipeline: Pipeline, times: int) -> None:
    """Runs that end after a commit of the target, before the offset is saved."""

    def fault(at: str, table: TableId) -> None:
        if at in {"after", "ddl applied"}:
            raise FencedError("the process dies", code="RPL-8001", table=str(table))

    in_memory_target.STORAGE.fault = fault
    for _ in range(times):
        try:
            pipeline.run()
        except FencedError:
            continue
        break
    in_memory_target.STORAGE.fault = lambda at, table: None


def test_changes_of_two_domains_in_one_table_are_applied_once_though_runs_end_at_each_commit(
    mariadb_database: MysqlDatabase, tmp_path: Path
) -> None:
    """Structure changes in one of the domains only."""
    db = mariadb_database
    _execute(db, 0, "CREATE TABLE t (id int PRIMARY KEY, v varchar(20), n int DEFAULT 0)")
    pipeline = Pipeline(db, tmp_path)
    pipeline.document["batch"]["maxRows"] = 1
    pipeline.run()
    for step in range(3):
        for domain in (1, 2, 1, 2):
            _execute(db, domain, f"INSERT INTO t (id, v) SELECT coalesce(max(id), 0) + 1, 'domain {domain}' FROM t")
            _execute(db, 3 - domain, "UPDATE t SET n = n + 1")
        _execute(db, 1, f"ALTER TABLE t ADD COLUMN c{step} int DEFAULT {step}")
        _execute(db, 2, f"UPDATE t SET c{step} = id WHERE id % 2 = 0")
        _execute(db, 2, f"DELETE FROM t WHERE id = {step + 1}")
        ends_after_commit(pipeline, 4)
        pipeline.run()
        assert pipeline.target_rows() == pipeline.source_rows()


@pytest.fixture
def two_servers(mysql_server: PrivateMysql) -> Iterator[tuple[MysqlDatabase, MysqlDatabase]]:
    """A database with a table `t`, and the same at a server that has followed the first one until then."""
    primary, replica = (mysql_server(MARIADB_10_11, log_slave_updates=True) for _ in range(2))
    replicate(primary, replica)
    with primary.database() as here:
        here.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
        catch_up(primary, replica)
        promote(replica)
        yield here, MysqlDatabase(replica, here.name)


@follows("RPL-3799")
def test_a_failover_while_two_domains_went_on_is_refused(
    two_servers: tuple[MysqlDatabase, MysqlDatabase], tmp_path: Path
) -> None:
    """The replica has the two transactions in the other order, so that a position of the first server says nothing there."""
    here, there = two_servers
    pipeline = Pipeline(here, tmp_path)
    pipeline.run()
    _execute(here, 1, _INSERT.format(1), 1)
    ends_after_commit(pipeline, 1)
    for domain in (2, 1):
        _execute(there, domain, _INSERT.format(domain), 1)
    pipeline.document["stages"][0]["plugin"]["properties"] |= mysql_source(there)[1]
    with pytest.raises(HistoryLostError, match=r"RPL-3799.*replicator reset PIPELINE"):
        pipeline.run()
    pipeline.reset()
    pipeline.database = there
    for number in (3, 4):
        pipeline.run()
        assert pipeline.target_rows() == pipeline.source_rows()
        _execute(there, 1, _INSERT.format(number))


def test_a_failover_while_one_domain_of_two_went_on_is_followed(
    two_servers: tuple[MysqlDatabase, MysqlDatabase], tmp_path: Path
) -> None:
    here, there = two_servers
    for db in two_servers:
        _execute(db, 2, _INSERT.format(2), 1)
    pipeline = Pipeline(here, tmp_path)
    pipeline.run()
    _execute(here, 1, _INSERT.format(1), 1)
    ends_after_commit(pipeline, 1)
    _execute(there, 1, _INSERT.format(1), 1)
    _execute(there, 1, _INSERT.format(3), 2)
    pipeline.document["stages"][0]["plugin"]["properties"] |= mysql_source(there)[1]
    moved = Pipeline.__new__(Pipeline)
    moved.database, moved.document = there, pipeline.document
    for number in range(3):
        moved.run()
        assert moved.target_rows() == moved.source_rows()
        _execute(there, 1, _INSERT.format(10 + number))
