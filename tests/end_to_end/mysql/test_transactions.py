"""Transactions of every kind end as the server ended them: distributed ones, parts rolled back, tables without transactions."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import RetryableError
from tests.end_to_end.mysql.conftest import MakeMysqlPipeline
from tests.end_to_end.mysql.database.pipeline import MysqlPipeline
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlDatabase


def prepare(pipeline: MysqlPipeline, name: str, *statements: str) -> None:
    """Leave a distributed transaction prepared, in a session that ends."""
    xid = f"'{pipeline.database.name}-{name}'"
    pipeline.execute(f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


def decide(pipeline: MysqlPipeline, verb: str, name: str) -> None:
    """Commit or roll back a prepared transaction from another session."""
    pipeline.execute(f"XA {verb} '{pipeline.database.name}-{name}'")


def test_a_distributed_transaction_counts_from_its_commit(own_pipeline: MysqlPipeline) -> None:
    """Prepared in one run, decided in another; what is decided between two runs, and what is rolled back."""
    own_pipeline.assert_nothing_lost()
    prepare(own_pipeline, "kept", "INSERT INTO item VALUES (1000, 'kept')", "INSERT INTO note VALUES ('kept')")
    prepare(own_pipeline, "gone", "UPDATE item SET name = 'gone' WHERE id = 50", "INSERT INTO note VALUES ('gone')")
    own_pipeline.execute("INSERT INTO item VALUES (1001, 'between')", "INSERT INTO note VALUES ('between')")
    own_pipeline.assert_nothing_lost()  # neither is visible yet
    decide(own_pipeline, "ROLLBACK", "gone")
    own_pipeline.assert_nothing_lost()
    own_pipeline.execute("UPDATE item SET name = 'changed' WHERE id = 50", "INSERT INTO note VALUES ('between')")
    decide(own_pipeline, "COMMIT", "kept")
    own_pipeline.change()
    own_pipeline.assert_nothing_lost()
    prepare(own_pipeline, "late", "INSERT INTO note VALUES ('late')")
    running = own_pipeline.replicator.start()
    running.said("streaming")
    decide(own_pipeline, "COMMIT", "late")
    assert running.stop().status in {0, 143}
    own_pipeline.assert_nothing_lost()


def test_a_distributed_transaction_of_one_phase_is_a_transaction(each_pipeline: MysqlPipeline) -> None:
    each_pipeline.assert_nothing_lost()
    xid = f"'{each_pipeline.database.name}'"
    each_pipeline.execute(
        f"XA START {xid}", "INSERT INTO note VALUES ('one phase')", f"XA END {xid}", f"XA COMMIT {xid} ONE PHASE"
    )
    each_pipeline.assert_nothing_lost()


def test_a_pipeline_begins_when_no_distributed_transaction_is_prepared(
    mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """Its rows would be in the log before the pipeline's beginning and its commit after it: the run waits, and says so."""
    with mysql_server().database() as database:
        pipeline = make_mysql(database)
        prepare(pipeline, "early", "INSERT INTO item VALUES (1000, 'early')", "INSERT INTO note VALUES ('early')")
        error = pipeline.fails(RetryableError, "prepared")
        assert error["code"] == "RPL-3796"
        assert "XA RECOVER" in error["hint"]
        decide(pipeline, "COMMIT", "early")
        pipeline.assert_nothing_lost()


def test_parts_of_a_transaction_that_were_rolled_back_leave_nothing(each_pipeline: MysqlPipeline) -> None:
    each_pipeline.assert_nothing_lost()
    each_pipeline.execute(
        "START TRANSACTION",
        "INSERT INTO item VALUES (2000, 'first')",
        "INSERT INTO note VALUES ('first')",
        "SAVEPOINT a",
        "UPDATE item SET name = 'taken back' WHERE id <= 60",
        "DELETE FROM note",
        "SAVEPOINT `b c`",
        "INSERT INTO note VALUES ('taken back')",
        "ROLLBACK TO SAVEPOINT a",
        "INSERT INTO note VALUES ('last')",
        "COMMIT",
        "START TRANSACTION",
        "DELETE FROM item",
        "ROLLBACK",
    )
    each_pipeline.assert_nothing_lost()


def test_a_table_without_transactions_is_copied_with_what_failed_half_way(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPipeline
) -> None:
    """MyISAM: an INSERT of three rows of which the third is refused leaves two, here and there."""
    pipeline = make_mysql(mysql_and_mariadb, "item", "note")
    pipeline.execute(
        "CREATE TABLE item (id int PRIMARY KEY, name varchar(40)) ENGINE MyISAM",
        "CREATE TABLE note (text varchar(40)) ENGINE MyISAM",
        "INSERT INTO item VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO note VALUES ('a'), ('a')",
    )
    pipeline.assert_nothing_lost()
    with pytest.raises(Exception, match="Duplicate"):
        pipeline.execute("INSERT INTO item VALUES (10, 'left'), (11, 'left'), (1, 'refused'), (12, 'never')")
    pipeline.execute("UPDATE item SET id = id + 100", "DELETE FROM note LIMIT 1", "INSERT INTO note VALUES (NULL)")
    pipeline.assert_nothing_lost()


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_a_rollback_leaves_what_a_table_without_transactions_was_given(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPipeline
) -> None:
    """The server keeps such a table's rows and takes the others back, and logs them so. With GTIDs MySQL refuses it."""
    with mysql_server(release, gtid=False).database() as database:
        pipeline = make_mysql(database, "item", "note")
        pipeline.execute(
            "CREATE TABLE item (id int PRIMARY KEY, name varchar(40)) ENGINE InnoDB",
            "CREATE TABLE note (text varchar(40)) ENGINE MyISAM",
        )
        pipeline.assert_nothing_lost()
        pipeline.execute(
            "START TRANSACTION",
            "INSERT INTO item VALUES (1, 'taken back')",
            "INSERT INTO note VALUES ('stays')",
            "ROLLBACK",
            "INSERT INTO note VALUES ('after')",
        )
        pipeline.assert_nothing_lost()


def test_a_large_transaction_is_applied_whole(mysql_pipeline: MysqlPipeline) -> None:
    mysql_pipeline.assert_nothing_lost()
    with mysql_pipeline.database.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for start in range(0, 40_000, 10_000):
            rows = [(i, f"row {i}") for i in range(10_000 + start, 20_000 + start)]
            cursor.executemany("INSERT INTO item VALUES (%s, %s)", rows)
        cursor.execute("UPDATE item SET name = 'changed' WHERE id % 2 = 0")
        cursor.execute("DELETE FROM item WHERE id % 10 <> 0")
        connection.commit()
    mysql_pipeline.assert_nothing_lost()
