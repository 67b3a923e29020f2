"""Changes that fire no DELETE trigger are logged, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.recording import Logged, interpret, recording
from tests.depth import ALL_CASES
from tests.plugins.sources.sqlite.source_system import SqliteSystem


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SqliteSystem]:
    made = SqliteSystem(tmp_path / "shop.db")
    yield made
    made.close()


def follow(shop: SqliteSystem, tables: str, changes: str) -> list[Logged]:
    """Make tables, change them, and check that the log alone leads to what is there; returns the log."""
    shop.database.executescript(tables)
    with shop.source.create_table_registry() as registry:
        schemas = {s.table: registry.describe_table(s.table) for s in registry.list_tables()}
    with recording(shop.source, schemas, None) as reader:
        reader.run()
        shop.database.executescript(changes)
        logged = reader.catch_up(20)
    reference = interpret(schemas, logged)
    assert not reference.stale
    for table in reference.tables.values():
        problem = difference(table.schema, shop.read_table(table.schema), table.rows)
        assert not problem, problem
    return logged


UNIQUE = "CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, v TEXT);"


@pytest.mark.parametrize("recursive", [0, 1])
@pytest.mark.parametrize(
    "changes",
    [
        "INSERT OR REPLACE INTO t VALUES (1, 'x', 'same key')",
        "INSERT OR REPLACE INTO t VALUES (9, 'a', 'same unique value')",
        "INSERT OR REPLACE INTO t VALUES (1, 'b', 'in the way of two rows')",
        "INSERT OR REPLACE INTO t (u, v) VALUES ('a', 'number given by SQLite')",
        "UPDATE OR REPLACE t SET u = 'b' WHERE id = 1",
        "UPDATE OR REPLACE t SET id = 2 WHERE id = 1",
        "UPDATE OR REPLACE t SET id = 2, u = 'c' WHERE id = 1",
        "INSERT OR IGNORE INTO t VALUES (1, 'z', 'nothing happens')",
        "INSERT OR IGNORE INTO t VALUES (1, 'z', ''); UPDATE t SET v = 'later' WHERE id = 1",
        "INSERT OR IGNORE INTO t VALUES (8, 'a', ''); DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'new', '')",
        "INSERT OR IGNORE INTO t VALUES (8, 'a', ''); UPDATE t SET id = 50 WHERE id = 1; INSERT INTO t (u) VALUES ('q')",
        "INSERT INTO t VALUES (1, 'z', 'w') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        "INSERT INTO t VALUES (7, 'a', 'w') ON CONFLICT (u) DO UPDATE SET id = excluded.id, v = excluded.v",
        "REPLACE INTO t SELECT id + 1, u, 'shifted' FROM t",
        "DELETE FROM t; INSERT INTO t VALUES (-1, 'minus one', ''); INSERT INTO t (u) VALUES ('auto')",
        "SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; RELEASE s; INSERT INTO t VALUES (4, 'd', '')",
        "BEGIN; INSERT INTO t VALUES (4, 'd', ''); ROLLBACK; INSERT INTO t VALUES (5, 'e', '')",
    ],
)
def test_rows_that_conflict_resolution_removes_are_logged(shop: SqliteSystem, changes: str, recursive: int) -> None:
    shop.database.execute(f"PRAGMA recursive_triggers = {recursive}")
    rows = "INSERT INTO t VALUES (1, 'a', ''), (2, 'b', ''), (3, 'c', '');"
    follow(shop, UNIQUE, f"{rows} {changes};")


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, u TEXT UNIQUE, v TEXT) WITHOUT ROWID;",
        "CREATE TABLE t (id TEXT COLLATE NOCASE, u TEXT UNIQUE, v TEXT, PRIMARY KEY (id, v)) STRICT;",
        "CREATE TABLE t (id TEXT, u TEXT, v TEXT); CREATE UNIQUE INDEX i ON t (u) WHERE v > '';",
        "CREATE TABLE t (rowid TEXT UNIQUE NOT NULL, id TEXT, u TEXT UNIQUE, v TEXT);",
        "CREATE TABLE t (id TEXT PRIMARY KEY, u TEXT UNIQUE, v TEXT, g TEXT AS (u || v) STORED UNIQUE);",
    ],
)
def test_every_kind_of_uniqueness_is_handled(shop: SqliteSystem, table: str) -> None:
    columns = "(rowid, id, u, v)" if "(rowid" in table else "(id, u, v)"
    key = "'r1', " if "(rowid" in table else ""
    other = "'r2', " if "(rowid" in table else ""
    follow(
        shop,
        table,
        f"""INSERT INTO t {columns} VALUES ({key}'a', 'x', '1'), ({other}'b', 'y', '2');
        INSERT OR REPLACE INTO t {columns} VALUES ({key}'A', 'y', '1');
        UPDATE OR REPLACE t SET u = 'x';
        UPDATE t SET v = '' WHERE u = 'x';""",
    )


def test_random_upserts_and_replacements_are_logged(shop: SqliteSystem) -> None:
    numbers = iter(range(10_000))
    values = st.integers(0, 3)
    statement = st.one_of(
        st.tuples(st.sampled_from(["INSERT OR REPLACE", "INSERT OR IGNORE"]), values, values).map(
            lambda s: f"{s[0]} INTO {{t}} VALUES ({s[1]}, {s[2]}, 'i')"
        ),
        st.tuples(st.sampled_from(["OR REPLACE", "OR IGNORE"]), st.sampled_from(["id", "u"]), values, values).map(
            lambda s: f"UPDATE {s[0]} {{t}} SET {s[1]} = {s[2]}, v = v || 'u' WHERE id >= {s[3]}"
        ),
        values.map(lambda v: f"DELETE FROM {{t}} WHERE id = {v}"),
    )

    @settings(
        max_examples=60 if ALL_CASES else 20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(statement, max_size=12))
    def check(statements: list[str]) -> None:
        name = f"t{next(numbers)}"
        shop.forget_owners()
        shop.database.executescript(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, v TEXT)")
        with shop.source.create_table_registry() as registry:
            schema = registry.describe_table(TableId("main", name))
        with recording(shop.source, {schema.table: schema}, None) as reader:
            for text in statements:
                shop.database.execute(text.format(t=name))
            reader.run()
            found = interpret(reader.schemas, reader.catch_up(20)).tables[schema.table]
        assert not difference(schema, shop.read_table(schema), found.rows)

    check()


def test_cascades_and_triggers_of_the_application_are_logged_in_order(shop: SqliteSystem) -> None:
    """A trigger that changes the row again fires after ours, so the log has the first change first."""
    logged = follow(
        shop,
        """CREATE TABLE p (id INTEGER PRIMARY KEY, n TEXT, stamp INT);
        CREATE TABLE c (id INTEGER PRIMARY KEY, p INT REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE TRIGGER touch AFTER UPDATE ON p WHEN NEW.stamp IS OLD.stamp
            BEGIN UPDATE p SET stamp = coalesce(OLD.stamp, 0) + 1 WHERE id = NEW.id; END;""",
        """PRAGMA foreign_keys = 1; INSERT INTO p VALUES (1, 'a', 0), (2, 'b', 0); INSERT INTO c VALUES (1, 1), (2, 1), (3, 2);
        UPDATE p SET n = 'A' WHERE id = 1; UPDATE p SET id = 7 WHERE id = 1; DELETE FROM p WHERE id = 7;""",
    )
    assert len(logged) > 10


def test_a_newer_trigger_of_the_application_is_noticed(shop: SqliteSystem) -> None:
    """SQLite fires the newest trigger first: after one is created, ours are created again, or the table is copied again."""
    shop.database.executescript(
        "CREATE TABLE p (id INTEGER PRIMARY KEY, n TEXT, stamp INT); INSERT INTO p VALUES (1, 'a', 0)"
    )
    with shop.source.create_table_registry() as registry:
        schema = registry.describe_table(TableId("main", "p"))
    with recording(shop.source, {schema.table: schema}, None) as reader:
        shop.database.executescript(
            """CREATE TRIGGER touch AFTER UPDATE ON p WHEN NEW.stamp IS OLD.stamp
                BEGIN UPDATE p SET stamp = OLD.stamp + 1 WHERE id = NEW.id; END;
            UPDATE p SET n = 'out of order';"""
        )
        reader.run()
        first = reader.catch_up(20)
        shop.database.executescript("UPDATE p SET n = 'in order'")
        second = reader.catch_up(20)[len(first) :]
    assert interpret({schema.table: schema}, [], overlap=True).stale == set()
    assert any(getattr(entry.change, "needs_snapshot", False) for entry in first)
    rows: list[Any] = [entry.change.row for entry in second if hasattr(entry.change, "row")]
    assert [(row["n"], row["stamp"]) for row in rows] == [("in order", 1), ("in order", 2)]


def test_a_unique_expression_is_refused(shop: SqliteSystem) -> None:
    shop.database.executescript(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, e TEXT); CREATE UNIQUE INDEX i ON t (lower(e))"
    )
    with shop.source.create_table_registry() as registry:
        schema = registry.describe_table(TableId("main", "t"))
    with shop.source.create_table_assessor() as assessor:
        assert [f.code for f in assessor.assess_table(schema).findings] == ["RPL-3508"]
    with pytest.raises(NeedsUserError, match="RPL-3508"), recording(shop.source, {schema.table: schema}, None):
        pass


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ("ALTER TABLE t RENAME TO other; INSERT INTO other VALUES (5, 'e', '')", ["RENAME_TABLE"]),
        ("ALTER TABLE t ADD COLUMN w INT DEFAULT 4; UPDATE t SET w = 5 WHERE id = 2", ["ALTER_TABLE"]),
        ("ALTER TABLE t RENAME COLUMN v TO w; ALTER TABLE t ADD COLUMN v BLOB DEFAULT x'00'", ["ALTER_TABLE"]),
        ("ALTER TABLE t ADD COLUMN w DECIMAL(5,2) NOT NULL DEFAULT 1.5", ["ALTER_TABLE"]),
    ],
)
def test_schema_changes_that_triggers_survive_need_no_snapshot(
    shop: SqliteSystem, changes: str, kinds: list[str]
) -> None:
    logged = follow(shop, UNIQUE, f"INSERT INTO t VALUES (1, 'a', ''), (2, 'b', ''); {changes};")
    assert [entry.change.operation.name for entry in logged if hasattr(entry.change, "alters")] == kinds


def test_a_rebuilt_table_is_copied_again_and_a_dropped_one_is_dropped(shop: SqliteSystem) -> None:
    shop.database.executescript(
        UNIQUE + "CREATE TABLE gone (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1, 'a', 'b')"
    )
    with shop.source.create_table_registry() as registry:
        schemas = {s.table: registry.describe_table(s.table) for s in registry.list_tables()}
    with recording(shop.source, schemas, None) as reader:
        shop.database.executescript(
            """BEGIN; CREATE TABLE t2 (id INTEGER PRIMARY KEY, u INT, w TEXT); INSERT INTO t2 SELECT id, 5, v FROM t;
            DROP TABLE t; ALTER TABLE t2 RENAME TO t; DROP TABLE gone; COMMIT; INSERT INTO t VALUES (9, 9, 'new')"""
        )
        reader.run()
        reference = interpret(schemas, reader.catch_up(20))
    assert reference.stale == {TableId("main", "t")}
    assert set(reference.tables) == {TableId("main", "t")}
    assert reference.tables[TableId("main", "t")].schema.names == ("id", "u", "w")
