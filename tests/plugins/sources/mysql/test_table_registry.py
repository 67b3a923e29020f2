"""Tables are listed and described as the account may read them."""

from __future__ import annotations

import threading
import uuid

import pytest

from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.table_registry import MySqlTableRegistry
from tests.plugins.sources.mysql.snapshot_reading import endpoint_of
from tests.services.mysql.server import MysqlDatabase


def test_tables_are_listed_with_their_size_and_views_are_not(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (a int PRIMARY KEY, b varchar(200))")
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    with MySqlTableRegistry(endpoint_of(db)) as registry:
        found = [line for line in registry.list_tables() if line.table.database == db.name]
        assert [line.table for line in found] == [TableId(db.name, "t")]
        assert found[0].columns == 2
        assert found[0].estimated_rows == 0
        assert found[0].estimated_bytes > 0
        assert not any(line.table.database in {"mysql", "sys"} for line in registry.list_tables())


def test_a_table_is_described_with_key_and_types(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (b varchar(9), a bigint unsigned PRIMARY KEY, c decimal(50,2))")
    with MySqlTableRegistry(endpoint_of(db)) as registry:
        schema = registry.describe_table(TableId(db.name, "t"))
        assert schema.primary_key == ("a",)
        assert [(c.name, str(c.type)) for c in schema.columns] == [
            ("b", "string"), ("a", "decimal(20,0)"), ("c", "string"),
        ]  # fmt: skip
        with pytest.raises(NeedsUserError, match="RPL-3825"):
            registry.describe_table(TableId(db.name, "nothing"))


def test_a_table_that_others_replace_is_always_listed(mysql_and_mariadb: MysqlDatabase) -> None:
    """As online schema changes do it; MariaDB's catalogue leaves it out for a moment."""
    db, stop = mysql_and_mariadb, threading.Event()
    db.execute("CREATE TABLE ticket (a int PRIMARY KEY)")

    def swap() -> None:
        with db.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                for statement in (
                    "CREATE TABLE g LIKE ticket",
                    "RENAME TABLE ticket TO d, g TO ticket",
                    "DROP TABLE d",
                ):
                    cursor.execute(statement)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        with MySqlTableRegistry(endpoint_of(db)) as registry:
            for _ in range(150):
                names = {line.table.table for line in registry.list_tables() if line.table.database == db.name}
                assert "ticket" in names, names
    finally:
        stop.set()
        thread.join()


def test_a_table_the_account_may_read_in_part_is_not_offered(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    user = f"u{uuid.uuid4().hex[:10]}"
    db.execute("CREATE TABLE whole (a int PRIMARY KEY, b int)")
    db.execute("CREATE TABLE part (a int PRIMARY KEY, b int)")
    db.execute(f"CREATE USER {user} IDENTIFIED BY 'x1'")
    try:
        db.execute(f"GRANT SELECT ON whole TO {user}")
        db.execute(f"GRANT SELECT (a) ON part TO {user}")
        with MySqlTableRegistry(endpoint_of(db, user=user, password="x1")) as registry:
            assert [line.table.table for line in registry.list_tables()] == ["whole"]
            with pytest.raises(NeedsUserError, match="RPL-3851"):
                registry.describe_table(TableId(db.name, "part"))
    finally:
        db.execute(f"DROP USER {user}")
