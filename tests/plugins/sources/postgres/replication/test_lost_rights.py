"""A table that the role may not read any more goes on by the log, and so do the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.services.postgres.server import PostgresDatabase

CREATE = """CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);
INSERT INTO a VALUES (1, 'a'); INSERT INTO b VALUES (1, 'b');
CREATE PUBLICATION p FOR TABLE a, b WITH (publish_via_partition_root = true)"""
PASSWORD = "secret-of-the-test"


@pytest.fixture
def role(postgres_database: PostgresDatabase) -> Iterator[str]:
    """A role that may replicate, and read the two tables."""
    db = postgres_database
    name = f"role_{db.name}"
    db.execute(f"{CREATE}; CREATE ROLE {name} LOGIN REPLICATION PASSWORD '{PASSWORD}'")
    db.execute(f"GRANT SELECT ON a, b TO {name}; GRANT USAGE ON SCHEMA public TO {name}")
    try:
        yield name
    finally:
        db.execute(f"DROP OWNED BY {name} CASCADE")
        db.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_table_whose_select_is_revoked_before_a_start_goes_on_by_the_log(
    postgres_database: PostgresDatabase, role: str, tmp_path: Path, *, by_pattern: bool
) -> None:
    db = postgres_database
    pipeline = Pipeline(db, tmp_path, "a", "b", user=role, password=PASSWORD, publication="p")
    if by_pattern:
        pipeline.document["tables"] = [{"database": db.name, "schema": "public", "table": "*"}]
    pipeline.run()
    pipeline.assert_equal()
    db.execute(f"REVOKE SELECT ON a FROM {role}")
    for number in (2, 3):
        db.execute(f"ALTER TABLE a ADD w{number} int DEFAULT 7; INSERT INTO a VALUES ({number}, 'a')")
        db.execute(f"INSERT INTO b VALUES ({number}, 'b')")
        pipeline.run()
        pipeline.assert_equal()
    db.execute(f"GRANT SELECT ON a TO {role}")
    for number in (4, 5):
        pipeline.run()
        pipeline.assert_equal()
        db.execute(f"INSERT INTO a VALUES ({number}, 'a'); INSERT INTO b VALUES ({number}, 'b')")
