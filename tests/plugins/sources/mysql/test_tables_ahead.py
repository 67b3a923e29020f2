"""After a failover to a server that lacks what a table holds already, the table is copied again; others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk.errors import TableHistoryLostError
from tests.end_to_end.mysql.test_failover import catch_up, promote, replicate
from tests.end_to_end.replicator import mysql_source
from tests.plugins.sources.mysql.pipeline import Pipeline
from tests.plugins.sources.mysql.test_gtid_domains import ends_after_commit
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9
from tests.services.mysql.server import MysqlDatabase


@pytest.fixture(params=[MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def two_servers(
    request: pytest.FixtureRequest, mysql_server: PrivateMysql
) -> Iterator[tuple[MysqlDatabase, MysqlDatabase]]:
    """A database with tables `t` and `u`, and the same at a server that follows the first one."""
    options = {"log_slave_updates": True} if request.param is MARIADB_10_11 else {}
    primary, replica = (mysql_server(request.param, **options) for _ in range(2))
    replicate(primary, replica)
    with primary.database() as here:
        for table in ("t", "u"):
            here.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v varchar(20))")
        catch_up(primary, replica)
        yield here, MysqlDatabase(replica, here.name)


def moved(pipeline: Pipeline, there: MysqlDatabase) -> Pipeline:
    """The pipeline, pointed at another server."""
    pipeline.document["stages"][0]["plugin"]["properties"] |= mysql_source(there)[1]
    found = Pipeline.__new__(Pipeline)
    found.database, found.document = there, pipeline.document
    return found


def test_a_table_that_is_ahead_of_the_new_server_is_copied_again_and_skips_nothing(
    two_servers: tuple[MysqlDatabase, MysqlDatabase], tmp_path: Path
) -> None:
    here, there = two_servers
    pipeline = Pipeline(here, tmp_path)
    pipeline.run()
    promote(there.server)
    here.execute("INSERT INTO t VALUES (1, 'lost')")
    ends_after_commit(pipeline, 1)
    for number in (11, 12, 13):
        there.execute(f"INSERT INTO t VALUES ({number}, 'there')")
        there.execute(f"INSERT INTO u VALUES ({number}, 'there')")
    after = moved(pipeline, there)
    with pytest.raises(TableHistoryLostError, match=r"RPL-3814.*t\b"):
        after.run()
    for number in (20, 21, 22):
        after.run()
        assert after.target_rows() == after.source_rows()
        there.execute(f"UPDATE t SET v = '{number}'")
        there.execute(f"INSERT INTO t VALUES ({number}, 'later')")


def test_a_table_that_is_ahead_of_the_saved_offset_goes_on_where_the_new_server_has_it_all(
    two_servers: tuple[MysqlDatabase, MysqlDatabase], tmp_path: Path
) -> None:
    here, there = two_servers
    pipeline = Pipeline(here, tmp_path)
    pipeline.run()
    promote(there.server)
    after = moved(pipeline, there)
    there.execute("INSERT INTO t VALUES (1, 'there')")
    ends_after_commit(after, 1)
    there.execute("INSERT INTO t VALUES (2, 'there')")
    after.run()
    assert after.target_rows() == after.source_rows()
