"""Tables that are renamed keep their copies, whichever names the log has and whatever the catalogue shows later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from replicator_source_postgres.snapshots.snapshot import PostgresSnapshotReader
from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.services.postgres.server import PostgresDatabase

EXCHANGE = "ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b"
RENAMES = {
    "renamed": "ALTER TABLE a RENAME TO a2; INSERT INTO a2 VALUES (90); DELETE FROM a2 WHERE id = 1",
    "quiet": "ALTER TABLE a RENAME TO a2",
    "in_a_transaction": """BEGIN; INSERT INTO a VALUES (90); ALTER TABLE a RENAME TO a2;
        UPDATE a2 SET id = 91 WHERE id = 90; COMMIT""",
    "chain": """ALTER TABLE a RENAME TO a2; INSERT INTO a2 VALUES (90); ALTER TABLE a2 RENAME TO a3;
        INSERT INTO a3 VALUES (91)""",
    "there_and_back": """ALTER TABLE a RENAME TO a2; INSERT INTO a2 VALUES (90); ALTER TABLE a2 RENAME TO a;
        INSERT INTO a VALUES (91)""",
    "to_another_schema": "ALTER TABLE a SET SCHEMA other; INSERT INTO other.a VALUES (90)",
    "with_its_schema": "ALTER SCHEMA own RENAME TO others; INSERT INTO others.o VALUES (90)",
    "partitioned": "ALTER TABLE p RENAME TO p2; INSERT INTO p2 VALUES (90), (190); INSERT INTO p_1 VALUES (91)",
    "exchange": f"{EXCHANGE}; INSERT INTO a VALUES (90); DELETE FROM b WHERE id = 2",
    "quiet_exchange": f"{EXCHANGE}; INSERT INTO c VALUES (90)",
    "exchange_of_three": """BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE c RENAME TO a; ALTER TABLE b RENAME TO c;
        ALTER TABLE x RENAME TO b; COMMIT; INSERT INTO a VALUES (90); INSERT INTO b VALUES (91); DELETE FROM c WHERE id = 2""",
    "two_exchanges": f"""BEGIN; {EXCHANGE}; ALTER TABLE c RENAME TO x; ALTER TABLE p RENAME TO c; ALTER TABLE x RENAME TO p;
        COMMIT; INSERT INTO a VALUES (90)""",
    "name_of_another": "ALTER TABLE b RENAME TO b2; ALTER TABLE a RENAME TO b; INSERT INTO b VALUES (90)",
    "with_columns": "ALTER TABLE a ADD v int DEFAULT 3; ALTER TABLE a RENAME TO a2; INSERT INTO a2 VALUES (90, 4)",
    "name_of_a_dropped_one": "DROP TABLE b; ALTER TABLE a RENAME TO b; INSERT INTO b VALUES (90)",
    "new_table_of_the_former_name": """ALTER TABLE a RENAME TO a2; CREATE TABLE a (id int PRIMARY KEY, v text);
        INSERT INTO a VALUES (1, 'new'); INSERT INTO a2 VALUES (90)""",
}
COPIED = {"new_table_of_the_former_name": {"a", "a2"}}
"""Where the replicator is stopped, a new table has the former name before it sees the rename: both are copied."""
TABLES = """CREATE SCHEMA other; CREATE SCHEMA own; CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY); CREATE TABLE own.o (id int PRIMARY KEY);
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (100) TO (200); INSERT INTO a SELECT generate_series(1, 10);
INSERT INTO b SELECT generate_series(1, 20); INSERT INTO c SELECT generate_series(1, 30);
INSERT INTO own.o SELECT generate_series(1, 5); INSERT INTO p SELECT generate_series(95, 105)"""


class Shop:
    """A database of which every table is copied."""

    def __init__(
        self, database: PostgresDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
    ) -> None:
        self.database = database
        self.copies: list[str] = []
        database.execute(TABLES)
        self.pipeline = Pipeline(database, folder, **settings)
        self.pipeline.document["tables"] = [{"database": database.name, "schema": "*", "table": "*"}]
        self.pipeline.document["newTablesIntervalSeconds"] = 1
        in_memory_target.STORAGE.drops = True
        opened, copies = PostgresSnapshotReader.open, self.copies

        def noted(reader: PostgresSnapshotReader, schema: Any, *arguments: Any) -> Any:
            copies.append(schema.table.table)
            return opened(reader, schema, *arguments)

        monkeypatch.setattr(PostgresSnapshotReader, "open", noted)
        self.pipeline.run()
        self.copies.clear()

    def tables(self) -> dict[str, list[Any]]:
        """The rows of each table at the source."""
        names = self.database.execute(
            "SELECT relnamespace::regnamespace::text, relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace::regnamespace::text !~ '^(pg_|information)'"
        )
        return {
            f"{schema}.{t}": sorted(map(tuple, self.database.execute(f'SELECT * FROM "{schema}"."{t}"')))
            for schema, t in names
        }

    def copied(self) -> dict[str, list[Any]]:
        """The rows of each table at the target."""
        return {
            str(table): sorted(kept.rows.elements()) for table, kept in list(in_memory_target.STORAGE.tables.items())
        }

    def three_runs(self) -> None:
        """After each, source and target are equal; rows and structure change between them."""
        for number in range(3):
            self.pipeline.run()
            assert self.copied() == self.tables()
            for table in self.tables():
                self.database.execute(
                    f"INSERT INTO {table} (id) VALUES ({50 + number}); DELETE FROM {table} WHERE id = {98 - number}"
                )
            if number:
                self.database.execute(f"ALTER TABLE {min(self.tables())} ADD later_{number} int DEFAULT 4")
        self.pipeline.run()
        assert self.copied() == self.tables()


@pytest.mark.parametrize("case", RENAMES)
def test_a_table_that_is_renamed_between_two_runs_is_renamed_at_the_target(
    case: str, postgres_oldest_and_newest: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(postgres_oldest_and_newest, tmp_path, monkeypatch)
    statements = RENAMES[case]
    for statement in [statements] if "BEGIN" in statements else statements.split("; "):
        shop.database.execute(statement)
    shop.three_runs()
    assert set(shop.copies) == COPIED.get(case, set())


@pytest.mark.parametrize("case", RENAMES)
def test_a_table_that_is_renamed_during_a_run_is_renamed_at_the_target(
    case: str, postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(postgres_database, tmp_path, monkeypatch)
    with shop.pipeline.running():
        shop.database.execute("INSERT INTO c VALUES (1000)")
        _wait_for(lambda: shop.copied() == shop.tables())
        shop.database.execute(RENAMES[case])
        _wait_for(lambda: shop.copied() == shop.tables())
    shop.three_runs()
    assert set(shop.copies) <= COPIED.get(case, set())


def _wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
