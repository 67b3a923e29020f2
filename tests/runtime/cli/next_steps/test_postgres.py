"""What errors of PostgreSQL advise is done as it is printed; the target is in this process's memory."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import SnapshotNeededError
from tests.end_to_end.replicator import postgres_source
from tests.follows import follows
from tests.runtime.cli.next_steps.operator_shop import OperatorShop
from tests.runtime.engine import in_memory_target

if TYPE_CHECKING:
    from replicator_sdk import TableId
    from tests.services.postgres.server import PostgresDatabase


class PostgresShop:
    """Two tables of a database, and the operator of their replicator."""

    def __init__(self, shop: OperatorShop, database: PostgresDatabase) -> None:
        self.operator, self.database = shop, database
        name, properties = postgres_source(database)
        shop.document["stages"][0]["plugin"] = {"name": name, "type": "cdcSource", "properties": dict(properties)}
        for table in ("customers", "notes"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20), size int)")
            database.execute(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")

    def assert_equal(self, *tables: str) -> None:
        """A run after changes ends equal."""
        for table in tables or ("customers", "notes"):
            self.database.execute(f"INSERT INTO {table} (id, name) VALUES (100, 'later')")
        self.operator.until_current()
        for table in tables or ("customers", "notes"):
            found = Counter(tuple(row.values()) for row in in_memory_target.STORAGE.rows(table))
            assert found == Counter(map(tuple, self.database.execute(f"SELECT * FROM {table}"))), table


@pytest.fixture
def postgres(shop: OperatorShop, postgres_database: PostgresDatabase) -> PostgresShop:
    return PostgresShop(shop, postgres_database)


@follows("RPL-3306")
def test_a_table_without_a_replica_identity_is_given_one_and_tried_again(postgres: PostgresShop) -> None:
    shop = postgres.operator
    shop.until_current()
    postgres.database.execute("CREATE TABLE bag (id int, name varchar(20))")
    postgres.database.execute("INSERT INTO bag VALUES (1, 'a'), (1, 'a')")
    refused = shop.refused("RPL-3306", "run", shop.file, "--until-current")
    [fix] = set(re.findall(r"ALTER TABLE \S+ REPLICA IDENTITY FULL", refused.stderr))
    postgres.database.execute(fix)
    shop.follow(refused, "RPL-3306", "table retry")
    postgres.assert_equal("customers", "notes", "bag")


@follows("RPL-6004")
def test_a_column_with_the_name_of_one_that_was_kept_comes_with_a_new_copy(postgres: PostgresShop) -> None:
    shop = postgres.operator
    shop.document["ddlPolicies"] = {"dropColumn": "ignore"}
    shop.until_current()
    postgres.database.execute("ALTER TABLE notes DROP COLUMN size")
    postgres.database.execute("INSERT INTO notes VALUES (4, 'd')")
    shop.until_current()
    postgres.database.execute("ALTER TABLE notes ADD COLUMN size text")
    postgres.database.execute("INSERT INTO notes VALUES (5, 'e', 'large')")
    refused = shop.refused("RPL-6004", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-6004", "table resync")
    postgres.assert_equal()


@follows("RPL-6005")
def test_a_table_that_keeps_a_column_is_copied_once_an_operator_says_so(
    postgres: PostgresShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target lacks a row from which an update leaves values out, while the table keeps a column."""

    def lacks_row(at: str, table: TableId) -> None:
        if (at, table.table) == ("before", "notes"):
            raise SnapshotNeededError("a row has moved", code="RPL-9197", table=str(table))

    shop, database = postgres.operator, postgres.database
    shop.document["ddlPolicies"] = {"dropColumn": "ignore"}
    shop.until_current()
    database.execute("ALTER TABLE notes DROP COLUMN size")
    database.execute("INSERT INTO notes VALUES (4, 'd')")
    shop.until_current()
    database.execute("UPDATE notes SET name = 'changed' WHERE id = 4")
    with monkeypatch.context() as patch:
        patch.setattr(in_memory_target.STORAGE, "fault", lacks_row)
        refused = shop.refused("RPL-6005", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-6005", "table resync")
    postgres.assert_equal()


@follows("RPL-3103", "RPL-3303")
def test_a_role_is_given_what_it_lacks(postgres: PostgresShop) -> None:
    shop, database = postgres.operator, postgres.database
    role = f"reader_of_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'battery staple'")
    try:
        database.execute(f"GRANT CREATE ON DATABASE {database.name} TO {role}")
        for table in ("customers", "notes"):
            database.execute(f"ALTER TABLE {table} OWNER TO {role}")
        shop.document["stages"][0]["plugin"]["properties"] |= {"user": role, "password": "battery staple"}
        refused = shop.refused("RPL-3103", "run", shop.file, "--until-current")
        assessed = shop.follow(refused, "RPL-3103", "assess", status=3)
        [grant] = set(re.findall(r"ALTER ROLE \S+ REPLICATION;", assessed.output))
        database.execute(grant)
        postgres.assert_equal()

        database.execute("CREATE TABLE later (id int PRIMARY KEY, name varchar(20))")
        database.execute(f"GRANT SELECT ON later TO {role}")
        refused = shop.refused("RPL-3303", "run", shop.file, "--until-current")
        [statement] = set(re.findall(r"ALTER PUBLICATION [^;]+;", refused.stderr))
        database.execute(statement)
        shop.follow(refused, "RPL-3303", "table retry")
        postgres.assert_equal("later")
    finally:
        database.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
        database.execute(f"DROP OWNED BY {role}")
        database.execute(f"DROP ROLE {role}")
