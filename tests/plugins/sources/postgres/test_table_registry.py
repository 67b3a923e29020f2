"""The key of a table, as the catalogue has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_sdk import TableId
from tests.plugins.sources.postgres.pump import source_of

if TYPE_CHECKING:
    from tests.services.postgres.server import PostgresDatabase


def key_of(database: PostgresDatabase, table: str) -> tuple[str, ...]:
    with source_of(database).create_table_registry() as registry:
        return registry.describe_table(TableId(database.name, table, "public")).primary_key


def test_a_primary_key_is_the_key_in_its_own_order(postgres_oldest_and_newest: PostgresDatabase) -> None:
    postgres_oldest_and_newest.execute("CREATE TABLE t (a int, b int, c int, PRIMARY KEY (c, a))")
    assert key_of(postgres_oldest_and_newest, "t") == ("c", "a")


def test_a_deferrable_primary_key_is_no_key(postgres_oldest_and_newest: PostgresDatabase) -> None:
    """Between two changes of one transaction it may be double: `UPDATE t SET id = 3 - id` swaps two rows at once."""
    postgres_oldest_and_newest.execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)")
    postgres_oldest_and_newest.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    assert key_of(postgres_oldest_and_newest, "t") == ()


def test_the_index_of_the_replica_identity_is_the_key(postgres_oldest_and_newest: PostgresDatabase) -> None:
    postgres_oldest_and_newest.execute("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL)")
    postgres_oldest_and_newest.execute("CREATE UNIQUE INDEX by_code ON t (code)")
    postgres_oldest_and_newest.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX by_code")
    assert key_of(postgres_oldest_and_newest, "t") == ("code",)
