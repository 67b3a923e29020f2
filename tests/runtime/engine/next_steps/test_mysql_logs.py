"""What errors of MySQL's log advise is tried: the error, the command that it names, and runs that go on right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.control.reset import reset
from replicator_sdk.errors import HistoryLostError, ReplicatorError
from tests.follows import follows
from tests.plugins.sources.mysql.streaming.test_reader import commit_prepared
from tests.runtime.engine.next_steps.test_servers import ServerShop, mysql, resync_past_the_place, save
from tests.runtime.engine.test_run import shop

if TYPE_CHECKING:
    from tests.services.mysql.server import MysqlDatabase

__all__ = ["mysql", "shop"]


def prepare(database: MysqlDatabase, name: str) -> None:
    """A distributed transaction that deletes a row is prepared, by a session that ends."""
    with database.connect() as connection, connection.cursor() as cursor:
        for statement in (
            f"XA START '{name}'",
            "DELETE FROM notes WHERE id = 3",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        ):
            cursor.execute(statement)


@follows("RPL-3795")
def test_after_the_commit_of_what_was_prepared_before_the_start_a_reset_copies_everything_again(
    mysql: ServerShop,
) -> None:
    """The account may not list what is prepared, so the start does not wait for it."""
    database = mysql.database
    account = f"reader_{database.name[-8:]}"
    database.execute(f"CREATE USER {account} IDENTIFIED BY 'secret'")
    database.execute(f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account}")
    mysql.sign_in(account, "secret")
    prepare(database, "early")
    mysql.run()
    commit_prepared(database, "early")
    for _ in range(2):
        with pytest.raises(HistoryLostError, match=r"RPL-3795.*XA RECOVER lists nothing.*replicator reset PIPELINE"):
            mysql.run()
    assert database.query("XA RECOVER") == []
    reset(mysql.pipeline())
    mysql.three_runs()
    database.execute(f"DROP USER {account}")


@follows("RPL-3797")
def test_on_another_server_without_the_rows_of_what_is_prepared_a_reset_copies_everything_again(
    mysql: ServerShop,
) -> None:
    mysql.run()
    prepare(mysql.database, "open")
    mysql.run()
    save(mysql, lambda offset: replace(offset, server="00000000-0000-0000-0000-000000000000"))
    with pytest.raises(HistoryLostError, match=r"RPL-3797.*replicator reset PIPELINE"):
        mysql.run()
    commit_prepared(mysql.database, "open")
    reset(mysql.pipeline())
    mysql.three_runs()


@follows("RPL-3706", "RPL-3714")
@pytest.mark.parametrize(
    ("code", "structure", "statement"),
    [
        (
            "RPL-3706", "ADD paper JSON", "UPDATE notes SET paper = JSON_SET(paper, '$.words.first', 'enough') WHERE id = 2",
        ),
        ("RPL-3714", "DROP PRIMARY KEY", "INSERT INTO notes (id) VALUES (4)"),
    ],
)  # fmt: skip
def test_a_table_whose_rows_the_log_does_not_hold_whole_is_copied_again(
    mysql: ServerShop, code: str, structure: str, statement: str
) -> None:
    """A session has asked for that."""
    mysql.database.execute(f"ALTER TABLE notes {structure}")
    if "JSON" in structure:
        mysql.database.execute("UPDATE notes SET paper = JSON_OBJECT('words', JSON_OBJECT('first', 'long enough'))")
    mysql.run()
    with mysql.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL', binlog_row_value_options = 'PARTIAL_JSON'")
        cursor.execute(statement)
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=rf"{code}.*table resync NAME TABLE --in-place"):
            mysql.run()
    resync_past_the_place(mysql, code)
    mysql.three_runs()


def test_a_pipelines_only_table_is_copied_again(mysql: ServerShop) -> None:
    mysql.database.execute("DROP TABLE customers")
    mysql.database.execute("ALTER TABLE notes ADD paper JSON")
    mysql.database.execute("UPDATE notes SET paper = JSON_OBJECT('words', JSON_OBJECT('first', 'long enough'))")
    mysql.run()
    with mysql.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL', binlog_row_value_options = 'PARTIAL_JSON'")
        cursor.execute("UPDATE notes SET paper = JSON_SET(paper, '$.words.first', 'enough') WHERE id = 2")
    mysql.database.execute("ALTER TABLE notes ADD after int")
    mysql.database.execute("INSERT INTO notes (id, after) VALUES (4, 4)")
    for _ in range(2):
        with pytest.raises(ReplicatorError, match=r"RPL-3706.*table resync NAME TABLE --in-place"):
            mysql.run()
    resync_past_the_place(mysql, "RPL-3706")
    mysql.three_runs("notes")
