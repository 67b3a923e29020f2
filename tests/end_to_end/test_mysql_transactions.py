"""Transactions of every kind end as the server ended them: distributed ones, parts taken back, tables without transactions."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import RetryableError
from tests.end_to_end.conftest import MakeMysqlPair
from tests.end_to_end.mysql_pair import MysqlPair
from tests.services.mysql import MysqlDatabase
from tests.services.mysql_fixtures import PrivateMysql
from tests.services.mysql_programs import MARIADB_10_11, MYSQL_9, Release


def prepare(pair: MysqlPair, name: str, *statements: str) -> None:
    """Leave a distributed transaction prepared, in a session that ends."""
    xid = f"'{pair.database.name}-{name}'"
    pair.execute(f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


def decide(pair: MysqlPair, verb: str, name: str) -> None:
    """Commit or roll back a prepared transaction from another session."""
    pair.execute(f"XA {verb} '{pair.database.name}-{name}'")


def test_a_distributed_transaction_counts_from_its_commit(own_pair: MysqlPair) -> None:
    """Prepared in one run, decided in another; what is decided between two runs, and what is rolled back."""
    own_pair.assert_nothing_lost()
    prepare(own_pair, "kept", "INSERT INTO item VALUES (1000, 'kept')", "INSERT INTO note VALUES ('kept')")
    prepare(own_pair, "gone", "UPDATE item SET name = 'gone' WHERE id = 50", "INSERT INTO note VALUES ('gone')")
    own_pair.execute("INSERT INTO item VALUES (1001, 'between')", "INSERT INTO note VALUES ('between')")
    own_pair.assert_nothing_lost()  # neither is visible yet
    decide(own_pair, "ROLLBACK", "gone")
    own_pair.assert_nothing_lost()
    own_pair.execute("UPDATE item SET name = 'changed' WHERE id = 50", "INSERT INTO note VALUES ('between')")
    decide(own_pair, "COMMIT", "kept")
    own_pair.change()
    own_pair.assert_nothing_lost()
    prepare(own_pair, "late", "INSERT INTO note VALUES ('late')")
    running = own_pair.replicator.start()
    running.said("streaming", 60)
    decide(own_pair, "COMMIT", "late")
    assert running.stop().status in {0, 143}
    own_pair.assert_nothing_lost()


def test_a_distributed_transaction_of_one_phase_is_a_transaction(both_pair: MysqlPair) -> None:
    both_pair.assert_nothing_lost()
    xid = f"'{both_pair.database.name}'"
    both_pair.execute(
        f"XA START {xid}", "INSERT INTO note VALUES ('one phase')", f"XA END {xid}", f"XA COMMIT {xid} ONE PHASE"
    )
    both_pair.assert_nothing_lost()


def test_a_pipeline_begins_when_no_distributed_transaction_is_prepared(
    mysql_server: PrivateMysql, make_mysql: MakeMysqlPair
) -> None:
    """Its rows would stand in the log before the pipeline's beginning and its commit behind: the run waits, and says so."""
    with mysql_server().database() as database:
        pair = make_mysql(database)
        prepare(pair, "early", "INSERT INTO item VALUES (1000, 'early')", "INSERT INTO note VALUES ('early')")
        error = pair.fails(RetryableError, "prepared")
        assert error["code"] == "RPL-3796"
        assert "XA RECOVER" in error["hint"]
        decide(pair, "COMMIT", "early")
        pair.assert_nothing_lost()


def test_parts_of_a_transaction_that_were_taken_back_leave_nothing(both_pair: MysqlPair) -> None:
    both_pair.assert_nothing_lost()
    both_pair.execute(
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
    both_pair.assert_nothing_lost()


def test_a_table_without_transactions_is_copied_with_what_failed_half_way(
    mysql_and_mariadb: MysqlDatabase, make_mysql: MakeMysqlPair
) -> None:
    """MyISAM: an INSERT of three rows of which the third is refused leaves two, here and there."""
    pair = make_mysql(mysql_and_mariadb, "item", "note")
    pair.execute(
        "CREATE TABLE item (id int PRIMARY KEY, name varchar(40)) ENGINE MyISAM",
        "CREATE TABLE note (text varchar(40)) ENGINE MyISAM",
        "INSERT INTO item VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO note VALUES ('a'), ('a')",
    )
    pair.assert_nothing_lost()
    with pytest.raises(Exception, match="Duplicate"):
        pair.execute("INSERT INTO item VALUES (10, 'left'), (11, 'left'), (1, 'refused'), (12, 'never')")
    pair.execute("UPDATE item SET id = id + 100", "DELETE FROM note LIMIT 1", "INSERT INTO note VALUES (NULL)")
    pair.assert_nothing_lost()


@pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)
def test_a_rollback_leaves_what_a_table_without_transactions_was_given(
    release: Release, mysql_server: PrivateMysql, make_mysql: MakeMysqlPair
) -> None:
    """The server keeps such a table's rows and takes the others back, and logs them so. With GTIDs MySQL refuses it."""
    with mysql_server(release, gtid=False).database() as database:
        pair = make_mysql(database, "item", "note")
        pair.execute(
            "CREATE TABLE item (id int PRIMARY KEY, name varchar(40)) ENGINE InnoDB",
            "CREATE TABLE note (text varchar(40)) ENGINE MyISAM",
        )
        pair.assert_nothing_lost()
        pair.execute(
            "START TRANSACTION",
            "INSERT INTO item VALUES (1, 'taken back')",
            "INSERT INTO note VALUES ('stays')",
            "ROLLBACK",
            "INSERT INTO note VALUES ('behind')",
        )
        pair.assert_nothing_lost()


def test_a_large_transaction_is_applied_whole(mysql_pair: MysqlPair) -> None:
    mysql_pair.assert_nothing_lost()
    with mysql_pair.database.connect(autocommit=False) as connection, connection.cursor() as cursor:
        for start in range(0, 40_000, 10_000):
            rows = [(i, f"row {i}") for i in range(10_000 + start, 20_000 + start)]
            cursor.executemany("INSERT INTO item VALUES (%s, %s)", rows)
        cursor.execute("UPDATE item SET name = 'changed' WHERE id % 2 = 0")
        cursor.execute("DELETE FROM item WHERE id % 10 <> 0")
        connection.commit()
    mysql_pair.assert_nothing_lost()
