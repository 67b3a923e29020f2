"""Changes of structure stand in the log where they were made, with the steps that lead from schema to schema."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk import Alter, AlterKind, Column, DDLEvent, TableId, TableSchema
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.datatype import INT32, INT64, STRING, Decimal
from replicator_sdk.event import DDLOperation
from replicator_source_postgres.schema_change import compare, identify, keeps_values
from tests.plugins.sources.postgres.harness import Pump, Run, schema_of
from tests.services.postgres import PostgresDatabase

A = AlterKind


def story(run: Run) -> list[Any]:
    """Rows and alter steps of the only table, in log order."""
    told: list[Any] = []
    for event in run.events:
        if isinstance(event, DDLEvent):
            told.append([alter.kind for alter in event.alters] or event.operation)
        else:
            assert isinstance(event, ChangeBatch)
            told += event.row.to_pylist()
    return told


def test_an_added_column_inside_a_transaction_splits_the_rows_before_and_after(
    postgres_oldest_and_newest: PostgresDatabase,
) -> None:
    db = postgres_oldest_and_newest
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (0)")
    db.execute(
        "BEGIN; INSERT INTO t VALUES (1); ALTER TABLE t ADD a text NOT NULL DEFAULT 'x,\"y'; INSERT INTO t VALUES (2, 'z');"
        " COMMIT"
    )
    run = pump.read()
    assert story(run) == [{"id": 0}, {"id": 1}, [A.ADD_COLUMN], {"id": 2, "a": "z"}]
    (event,) = run.ddl
    assert event.alters[0].default == 'x,"y'
    assert event.alters[0].column is not None
    assert event.alters[0].column.nullable is False
    assert not event.needs_snapshot
    # The event stands in the first transaction of its window: one insert of it lies before.
    assert event.ordinal == 1


def test_a_replay_emits_the_change_of_structure_at_the_same_place(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    start = pump.prepare()
    db.execute("INSERT INTO t VALUES (0)")
    db.execute("BEGIN; INSERT INTO t VALUES (1); ALTER TABLE t ADD a int; INSERT INTO t VALUES (2, 2); COMMIT")
    first = pump.read()
    pump.offset, pump.context.committed = start, None
    again = pump.read()
    places = [[(e.offset, e.ordinal, e.sequence_number) for e in run.ddl] for run in (first, again)]
    assert len(places[0]) == 1
    assert places[0] == places[1]


@pytest.mark.parametrize(
    ("change", "steps", "needs_snapshot"),
    [
        ("ALTER TABLE t DROP COLUMN b", [A.DROP_COLUMN], False),
        ("ALTER TABLE t RENAME b TO bb", [A.RENAME_COLUMN], False),
        ("ALTER TABLE t RENAME b TO x; ALTER TABLE t RENAME c TO b; ALTER TABLE t RENAME x TO c",
         [A.RENAME_COLUMN] * 3, False),
        ("ALTER TABLE t ALTER n TYPE bigint", [A.RETYPE_COLUMN], True),
        ("ALTER TABLE t ALTER n TYPE text", [A.RETYPE_COLUMN], True),
        ("ALTER TABLE t ALTER b TYPE text", [A.RETYPE_COLUMN], False),
        ("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD b int", [A.DROP_COLUMN, A.ADD_COLUMN], False),
        ("ALTER TABLE t DROP COLUMN z; ALTER TABLE t ADD z int", [A.DROP_COLUMN, A.ADD_COLUMN], False),
        ("ALTER TABLE t ADD u uuid DEFAULT gen_random_uuid()", [A.ADD_COLUMN], True),
        ("ALTER TABLE t ADD s serial", [A.ADD_COLUMN], True),
        ("ALTER TABLE t ADD d int DEFAULT 5; ALTER TABLE t ALTER d DROP DEFAULT", [A.ADD_COLUMN], False),
        ("ALTER TABLE t ALTER n SET NOT NULL", [A.TIGHTEN_COLUMN], False),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id, n)",
         [A.TIGHTEN_COLUMN, A.CHANGE_KEY], False),
        ("CREATE INDEX ON t (n)", [], False),
    ],
)  # fmt: skip
def test_each_change_is_told_by_its_steps(
    change: str, steps: list[AlterKind], needs_snapshot: bool, postgres_database: PostgresDatabase
) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, b varchar(10), c varchar(10), n int, z int)")
    pump = Pump(db, "t")
    pump.prepare()
    with pump.running() as run:
        db.execute("INSERT INTO t VALUES (1, 'b1', 'c1', 1, 1)")
        run.wait_for(pump.source.latest_offset())
        db.execute(change)
        db.execute("INSERT INTO t (id, n) VALUES (2, '7')")
        run.wait_for(pump.source.latest_offset())
    kinds = [alter.kind for event in run.ddl for alter in event.alters]
    assert kinds == steps
    assert any(event.needs_snapshot for event in run.ddl) is needs_snapshot
    last = run.batches("t")[-1]
    row = last.row.to_pylist()[-1]
    assert (row["id"], str(row["n"])) == (2, "7")
    described = [(c.name, c.type, c.source_id) for c in last.schema.columns]
    with pump.source.create_table_registry() as registry:
        now = registry.describe_table(pump.table("t"))
    assert described == [(c.name, c.type, c.source_id) for c in now.columns]
    assert last.schema.primary_key == now.primary_key


def test_a_change_that_no_row_announces_is_told_all_the_same(postgres_database: PostgresDatabase) -> None:
    """Before the offset passes it; a row that follows brings no second event."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("ALTER TABLE t ADD a int DEFAULT 5")
    with pump.running() as run:
        run.wait_for(pump.source.latest_offset())
        assert story(run) == [{"id": 1}, [A.ADD_COLUMN]]
        assert run.ddl[0].alters[0].default == 5
        db.execute("INSERT INTO t VALUES (2, 2)")
        run.wait_for(pump.source.latest_offset())
        assert story(run) == [{"id": 1}, [A.ADD_COLUMN], {"id": 2, "a": 2}]


def test_what_was_told_from_the_catalogue_is_told_again_where_it_was(postgres_database: PostgresDatabase) -> None:
    """A replay must not fold two changes into one where the first was told: whoever has applied that takes it for known."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    pump = Pump(db, "t")
    start = pump.prepare()
    told = []
    schemas = dict(pump.schemas)
    for change in ("DROP COLUMN a", "ADD b int", "RENAME TO t2", "ADD c int"):
        db.execute(f"ALTER TABLE {'t2' if change == 'ADD c int' else 't'} {change}")
        run = pump.read()
        pump.context.committed = None
        told += [(e.offset, e.ordinal, e.operation, [a.kind for a in e.alters]) for e in run.ddl]
        pump.schemas = {e.table: e.schema for e in run.ddl if e.schema is not None}
    assert [kinds for *_, kinds in told] == [[A.DROP_COLUMN], [A.ADD_COLUMN], [], [A.ADD_COLUMN]]
    pump.offset, pump.context.committed, pump.schemas = start, None, schemas
    again = [(e.offset, e.ordinal, e.operation, [a.kind for a in e.alters]) for e in pump.read().ddl]
    assert again == told


def test_changes_made_while_nobody_read_are_told_one_by_one_or_ask_for_a_snapshot(
    postgres_database: PostgresDatabase,
) -> None:
    """The catalogue is ahead of the log; what cannot be told apart any more must not be guessed in silence."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1, 1)")
    db.execute("ALTER TABLE t ADD b int DEFAULT 7; INSERT INTO t VALUES (2, 2, 2)")
    db.execute("ALTER TABLE t RENAME a TO aa; INSERT INTO t VALUES (3, 3, 3)")
    db.execute("ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (4, 4)")
    run = pump.read()
    rows = [row for _, row, _, _ in run.changes("t")]
    assert rows == [{"id": 1, "a": 1}, {"id": 2, "a": 2, "b": 2}, {"id": 3, "aa": 3, "b": 3}, {"id": 4, "aa": 4}]
    assert any(event.needs_snapshot for event in run.ddl)
    assert run.batches("t")[-1].schema.names == ("id", "aa")


def test_a_renamed_table_is_told_by_its_identifier(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1); ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (2)")
    run = pump.read()
    (event,) = run.ddl
    assert (event.operation, event.table, event.prev_table) == (
        DDLOperation.RENAME_TABLE, pump.table("t2"), pump.table("t"),
    )  # fmt: skip
    assert [row for _, row, _, _ in run.changes("t2")] == [{"id": 2}]


def test_a_replay_from_before_a_rename_still_knows_the_table(postgres_database: PostgresDatabase) -> None:
    """What is kept of table names may be newer than the offset, as after a crash; nothing must be taken for foreign."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    start = pump.prepare()
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (2)")
    seen = []
    for _ in range(2):
        run = pump.read()
        seen.append([run.changes("t"), run.changes("t2"), [e.operation for e in run.ddl]])
        pump.offset, pump.context.committed = start, None
    assert seen[0][2] == [DDLOperation.RENAME_TABLE]
    assert seen[1] == seen[0]
    # A pipeline that has gone on under the new name reads the old stretch of the log under it too.
    pump.schemas = {pump.table("t2"): schema_of(pump, "t2")}
    run = pump.read()
    assert [row["id"] for _, row, _, _ in run.changes("t2")] == [1, 2]
    assert run.ddl == []


def test_a_replaced_table_asks_for_a_snapshot(postgres_database: PostgresDatabase) -> None:
    """Dropped and created anew under its name, or swapped in by a rename: other rows, which the log does not bring."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    db.execute("CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)")
    pump = Pump(db, "t", publication="p")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (5, 5)")
    run = pump.read()
    assert any(e.operation is DDLOperation.TRUNCATE_TABLE and e.needs_snapshot for e in run.ddl)
    assert run.changes("t")[-1][1] == {"id": 5, "x": 5}


# ------------------------------------------------------------ the comparison by itself


def schema(*columns: tuple[str, str, Any], key: tuple[str, ...] = ()) -> TableSchema:
    """A schema of (identity, name, type)."""
    return TableSchema(
        TableId("d", "t", "s"), tuple(Column(n, k, source_type=str(k), source_id=i) for i, n, k in columns), key
    )


def names_after(steps: tuple[Alter, ...], before: TableSchema) -> set[str]:
    """Apply drops, renames and adds one by one, as a target does; fails where a name is taken."""
    names = set(before.names)
    for step in steps:
        if step.kind in {A.DROP_COLUMN, A.RENAME_COLUMN}:
            assert step.previous is not None
            names.remove(step.previous.name)
        if step.kind in {A.ADD_COLUMN, A.RENAME_COLUMN}:
            assert step.column is not None
            assert step.column.name not in names
            names.add(step.column.name)
    return names


@pytest.mark.parametrize("order", ["bca", "cab", "bac", "acb", "abc", "cba"])
def test_renames_in_a_circle_can_be_applied_step_by_step(order: str) -> None:
    before = schema(("1", "a", INT32), ("2", "b", INT32), ("3", "c", INT32))
    after = schema(*((str(i + 1), name, INT32) for i, name in enumerate(order)))
    assert names_after(compare(before, after), before) == {"a", "b", "c"}


def test_a_rename_to_a_name_in_another_case_waits_until_that_name_is_free() -> None:
    """Many targets do not distinguish the case of names; to Postgres, `B` and `b` are two columns."""
    before = schema(("1", "id", INT32), ("2", "a", INT32), ("3", "b", INT32))
    after = schema(("1", "id", INT32), ("2", "B", INT32), ("3", "c", INT32))
    assert [(s.previous.name, s.column.name) for s in compare(before, after) if s.previous and s.column] == [
        ("b", "c"),
        ("a", "B"),
    ]


def test_a_name_freed_by_a_drop_can_be_taken_by_rename_and_add() -> None:
    before = schema(("1", "a", INT32), ("2", "b", INT32), ("3", "c", INT32))
    after = schema(("2", "a", INT32), ("3", "d", INT32), ("4", "b", INT32))
    assert names_after(compare(before, after), before) == {"a", "d", "b"}


def test_identities_come_from_the_catalogue_only_while_it_agrees_with_the_log() -> None:
    known = schema(("1", "id", INT32), ("2", "a", INT32))
    announced = [Column("id", INT32, source_type="int32"), Column("b", INT32, source_type="int32")]
    agrees = schema(("1", "id", INT32), ("2", "b", INT32)).columns
    moved_on = schema(("1", "id", INT32), ("2", "c", INT32)).columns
    assert [c.source_id for c in identify(announced, agrees, known).columns] == ["1", "2"]
    assert identify(announced, agrees, known).is_certain
    assert not identify(announced, moved_on, known).is_certain


def test_only_conversions_that_keep_every_value_need_no_snapshot() -> None:
    def column(kind: Any, source: str = "") -> Column:
        return Column("c", kind, source_type=source or str(kind))

    assert keeps_values(column(INT32), column(INT64))
    assert not keeps_values(column(INT64), column(INT32))
    assert keeps_values(column(Decimal(10, 2)), column(Decimal(12, 2)))
    assert not keeps_values(column(Decimal(10, 2)), column(Decimal(12, 1)))
    assert not keeps_values(column(Decimal(10, 2)), column(Decimal(11, 4)))
    assert keeps_values(column(STRING, "character varying(3)"), column(STRING, "text"))
    assert not keeps_values(column(STRING, "text"), column(STRING, "inet"))
    assert not keeps_values(column(INT32), column(STRING))
