"""Tables that are renamed, move to another schema or exchange their names are renamed at the target, and not copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase

CREATE = """CREATE SCHEMA other; CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);
CREATE TABLE c (id int PRIMARY KEY, v text); INSERT INTO a SELECT n, 'a' FROM generate_series(1, 50) n;
INSERT INTO b SELECT n, 'b' FROM generate_series(1, 50) n; INSERT INTO c SELECT n, 'c' FROM generate_series(1, 50) n"""
RENAME = """BEGIN; INSERT INTO a VALUES (100, 'before'); ALTER TABLE a RENAME TO a2; INSERT INTO a2 VALUES (101, 'after');
UPDATE a2 SET v = 'changed' WHERE id = 100; COMMIT; ALTER TABLE b SET SCHEMA other; UPDATE other.b SET v = 'moved' WHERE id = 2;
ALTER TABLE c RENAME TO c2; ALTER TABLE c2 RENAME TO c3"""
SWAP = """BEGIN; ALTER TABLE a2 RENAME TO x; ALTER TABLE c3 RENAME TO a2; ALTER TABLE x RENAME TO c3; COMMIT;
INSERT INTO a2 VALUES (200, 'once c3'); INSERT INTO c3 VALUES (201, 'once a2')"""
TABLES = (("public", "a2"), ("other", "b"), ("public", "c3"))


@pytest.mark.timeout(600)
def test_renamed_tables_and_tables_that_exchange_names_are_equal_at_the_target(
    postgres_oldest_and_newest: PostgresDatabase, tmp_path: Path
) -> None:
    postgres_database = postgres_oldest_and_newest
    replicator = Replicator(tmp_path, postgres_source(postgres_database))
    with postgres_database.connect() as connection:
        for statement in CREATE.split(";"):
            connection.execute(statement.encode())
        replicator.until_current()
        for statement in RENAME.split(";"):
            connection.execute(statement.encode())
        _without_a_copy(replicator)
        for n in range(3):
            assert_equal_copies(connection, replicator.lake, TABLES)
            for schema, table in TABLES:
                connection.execute(f"ALTER TABLE {schema}.{table} ADD more_{n} int DEFAULT 3".encode())
                connection.execute(f"INSERT INTO {schema}.{table} VALUES ({300 + n}, 'new')".encode())
                connection.execute(f"DELETE FROM {schema}.{table} WHERE id = {10 + n}".encode())
            _without_a_copy(replicator)
        for statement in SWAP.split(";"):
            connection.execute(statement.encode())
        for n in range(3):
            _without_a_copy(replicator)
            assert_equal_copies(connection, replicator.lake, TABLES)
            for schema, table in TABLES:
                connection.execute(f"INSERT INTO {schema}.{table} VALUES ({400 + n}, 'newer')".encode())
                connection.execute(f"DELETE FROM {schema}.{table} WHERE id = {20 + n}".encode())


def _without_a_copy(replicator: Replicator) -> None:
    """A run that copies no table."""
    ended = replicator.until_current()
    assert replicator.copied(ended) == [], ended.messages
