"""Where changes of structure are within their transaction does not depend on which tables are captured."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator_sdk import DDLEvent
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.event import DDLOperation
from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.plugins.sources.postgres.pump import Pump, Run
from tests.runtime.engine import in_memory_target
from tests.services.postgres.server import PostgresDatabase

TABLES = "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)"
BOTH_ALTERED = """BEGIN; INSERT INTO b VALUES (1); ALTER TABLE a ADD x int; INSERT INTO a VALUES (1, 1); ALTER TABLE b ADD x int;
INSERT INTO b VALUES (2, 2); INSERT INTO a VALUES (2, 2); ALTER TABLE a ADD y int; ALTER TABLE b ADD y int;
INSERT INTO a VALUES (3, 3, 3); INSERT INTO b VALUES (3, 3, 3), (4, 4, 4); COMMIT"""


def ordinals(run: Run, name: str) -> list[tuple[str, int]]:
    """What happened to a table, each event with its ordinal."""
    found: list[tuple[str, int]] = []
    for event in run.events:
        if event.table.table != name:
            continue
        if isinstance(event, DDLEvent):
            found.append((str(event.operation), event.ordinal))
        else:
            assert isinstance(event, ChangeBatch)
            found += [("row", int(ordinal)) for ordinal in event.ordinals]
    return found


def test_ordinals_do_not_depend_on_which_tables_are_captured(postgres_oldest_and_newest: PostgresDatabase) -> None:
    db = postgres_oldest_and_newest
    db.execute(TABLES)
    pump = Pump(db, "a", "b")
    start, schemas = pump.prepare(), pump.schemas
    db.execute(BOTH_ALTERED)
    db.execute("INSERT INTO a VALUES (5); INSERT INTO b VALUES (5)")
    together = pump.read()
    assert {operation for operation, _ in ordinals(together, "b")} == {"row", "ALTER_TABLE"}
    for name in ("a", "b"):
        pump.offset, pump.context.committed = start, None
        pump.schemas = {table: schema for table, schema in schemas.items() if table.table == name}
        assert ordinals(pump.read(), name) == ordinals(together, name)


@pytest.mark.parametrize("taken_out", [True, False], ids=["taken out", "copied again"])
@pytest.mark.parametrize("step", ["ddl", "ddl applied", "after"])
def test_a_replay_of_changes_of_structure_without_another_table_loses_and_repeats_nothing(
    step: str, taken_out: bool, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """The table's position is inside the transaction; the other table's changes of structure are not emitted again."""
    db = postgres_database
    db.execute(TABLES)
    pipeline = Pipeline(db, tmp_path, "a", "b")
    pipeline.run()
    db.execute(
        """BEGIN; ALTER TABLE a ADD x int; INSERT INTO a VALUES (1, 1); ALTER TABLE b ADD x int; INSERT INTO b VALUES (2, 2);
        ALTER TABLE b ADD y int; INSERT INTO b VALUES (3, 3, 3); ALTER TABLE b ADD z int; INSERT INTO b VALUES (4); COMMIT"""
    )
    assert pipeline.run_that_dies_at(step, "b") == [step]
    if taken_out:
        pipeline.document["tables"] = [one for one in pipeline.document["tables"] if one["table"] != "a"]
    else:
        db.execute("ALTER TABLE a ADD late int DEFAULT random()")
    pipeline.tables = ("b",)
    for _ in range(2):
        pipeline.run()
        pipeline.assert_equal()
        db.execute("INSERT INTO b SELECT max(id) + 1 FROM b")
    pipeline.run()
    pipeline.assert_equal()
    applied = [
        e for e in in_memory_target.STORAGE.ddl if e.table.table == "b" and e.operation is DDLOperation.ALTER_TABLE
    ]
    assert [[str(alter.column and alter.column.name) for alter in event.alters] for event in applied] == [
        ["x"],
        ["y"],
        ["z"],
    ]
