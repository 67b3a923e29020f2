"""Schema changes are emitted at their position in the log, as the steps from one schema to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import AlterKind, DDLEvent
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.event import DDLOperation
from replicator_source_postgres.streaming.catalogue_poller import CataloguePoller
from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.plugins.sources.postgres.pump import Pump, Run, schema_of
from tests.plugins.sources.postgres.replica import Replica
from tests.services.postgres.server import PostgresDatabase

A = AlterKind


def story(run: Run) -> list[Any]:
    """Rows and alter steps of the only table, in log order."""
    emitted: list[Any] = []
    for event in run.events:
        if isinstance(event, DDLEvent):
            emitted.append([alter.kind for alter in event.alters] or event.operation)
        else:
            assert isinstance(event, ChangeBatch)
            emitted += event.row.to_pylist()
    return emitted


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
    # The event is in the first transaction of its window, after one insert.
    assert event.ordinal == 1


def test_a_replay_emits_the_schema_change_at_the_same_position(postgres_database: PostgresDatabase) -> None:
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
        # The log may still have been written with the former last column.
        ("ALTER TABLE t DROP COLUMN z; ALTER TABLE t ADD z int", [A.DROP_COLUMN, A.ADD_COLUMN], True),
        ("ALTER TABLE t ADD u uuid DEFAULT gen_random_uuid()", [A.ADD_COLUMN], True),
        ("ALTER TABLE t ADD s serial", [A.ADD_COLUMN], True),
        ("ALTER TABLE t ADD d int DEFAULT 5; ALTER TABLE t ALTER d DROP DEFAULT", [A.ADD_COLUMN], False),
        ("ALTER TABLE t ALTER n SET NOT NULL", [A.TIGHTEN_COLUMN], False),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id, n)",
         [A.TIGHTEN_COLUMN, A.CHANGE_KEY], False),
        ("CREATE INDEX ON t (n)", [], False),
    ],
)  # fmt: skip
def test_each_change_is_emitted_as_its_steps(
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


def test_a_change_that_no_row_announces_is_emitted(postgres_database: PostgresDatabase) -> None:
    """Before the offset passes it; a row that follows brings no second event."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("ALTER TABLE t ADD a int DEFAULT 5")
    with pump.running() as run:
        run.wait_for(pump.source.latest_offset())
        run.wait_until(lambda: bool(run.ddl))  # the offset it begins at is emitted just before it
        assert story(run) == [{"id": 1}, [A.ADD_COLUMN]]
        assert run.ddl[0].alters[0].default == 5
        db.execute("INSERT INTO t VALUES (2, 2)")
        run.wait_for(pump.source.latest_offset())
        assert story(run) == [{"id": 1}, [A.ADD_COLUMN], {"id": 2, "a": 2}]


def test_a_change_from_the_catalogue_is_not_emitted_before_rows_that_are_not_read_yet(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is altered just after the log was found read up to what the catalogue had shown."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    pump.prepare()
    changes, settled = ["BEGIN; INSERT INTO t VALUES (1); ALTER TABLE t ADD a int; COMMIT"], CataloguePoller.settled

    def altering(poller: CataloguePoller, read_up_to: int) -> list[Any]:
        found = settled(poller, read_up_to)
        if found and changes:
            db.execute(changes[0])
            changes.clear()
        return found

    monkeypatch.setattr(CataloguePoller, "settled", altering)
    with pump.running() as run:
        run.wait_until(lambda: not changes)
        db.execute("INSERT INTO t VALUES (2, 2)")
        run.wait_for(pump.source.latest_offset())
    assert story(run) == [{"id": 1}, [A.ADD_COLUMN], {"id": 2, "a": 2}]


def test_a_change_from_the_catalogue_is_replayed_at_its_position(postgres_database: PostgresDatabase) -> None:
    """A replay must not merge two changes when the first was emitted: a target that applied it expects only the second."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    pump = Pump(db, "t")
    start = pump.prepare()
    emitted = []
    schemas = dict(pump.schemas)
    for change in ("DROP COLUMN a", "ADD b int", "RENAME TO t2", "ADD c int"):
        db.execute(f"ALTER TABLE {'t2' if change == 'ADD c int' else 't'} {change}")
        events = _structure(pump, 1)
        emitted += [(e.offset, e.ordinal, e.operation, [a.kind for a in e.alters]) for e in events]
        pump.schemas = {e.table: e.schema for e in events if e.schema is not None}
    assert [kinds for *_, kinds in emitted] == [[A.DROP_COLUMN], [A.ADD_COLUMN], [], [A.ADD_COLUMN]]
    pump.offset, pump.schemas = start, schemas
    again = [(e.offset, e.ordinal, e.operation, [a.kind for a in e.alters]) for e in _structure(pump, 4)]
    assert again == emitted


def _structure(pump: Pump, count: int) -> list[DDLEvent]:
    """The next `count` changes of structure; the last offset is emitted just before the last of them."""
    target = pump.source.latest_offset()
    with pump.running() as run:
        run.wait_for(target)
        run.wait_until(lambda: len(run.ddl) >= count)
    pump.offset, pump.context.committed = run.emitter.last_offset, None
    return run.ddl


def test_changes_made_while_no_reader_ran_are_emitted_one_by_one_or_need_a_snapshot(
    postgres_database: PostgresDatabase,
) -> None:
    """The catalogue is ahead of the log; what can no longer be distinguished must not be guessed in silence."""
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


_ANOTHER_COLUMN = "ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD v int"
_SAME_NAME = {
    "dropped_and_added": _ANOTHER_COLUMN,
    "with_a_default": "ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD v int DEFAULT 3",
    "renamed_and_added": "ALTER TABLE t RENAME v TO w; ALTER TABLE t ADD v int",
    "rows_after_it": f"{_ANOTHER_COLUMN}; INSERT INTO t VALUES (4, 40); UPDATE t SET v = 50 WHERE id = 1",
    "rows_between": "ALTER TABLE t DROP COLUMN v; INSERT INTO t VALUES (4); ALTER TABLE t ADD v int",
}


_SWAP = "ALTER TABLE t RENAME b TO x; ALTER TABLE t RENAME c TO b; ALTER TABLE t RENAME x TO c"


@pytest.mark.parametrize(
    ("later", "needs_snapshot"),
    [(_SWAP, False), ("ALTER TABLE t RENAME b TO d", False), ("ALTER TABLE t DROP COLUMN b", True)],
    ids=["swap back", "rename", "drop"],
)
def test_a_swap_of_names_that_is_read_after_a_later_change_is_emitted_or_needs_a_snapshot(
    later: str, needs_snapshot: bool, postgres_database: PostgresDatabase
) -> None:
    """The catalogue shows neither the names that the log announces, nor those known before."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, b int, c int)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1, 10, 100)")
    db.execute(f"BEGIN; {_SWAP}; INSERT INTO t VALUES (2, 20, 200); COMMIT")
    db.execute(f"BEGIN; {later}; INSERT INTO t (id) VALUES (3); COMMIT")
    run = pump.read()
    swap = run.ddl[0]
    assert swap.needs_snapshot is needs_snapshot
    assert [alter.kind for alter in swap.alters] == ([] if needs_snapshot else [A.RENAME_COLUMN] * 3)
    assert swap.schema is not None
    assert swap.schema.names == ("id", "c", "b")


@pytest.mark.parametrize("change", _SAME_NAME.values(), ids=_SAME_NAME)
@pytest.mark.parametrize("rows", ["INSERT INTO t VALUES (3, 30); UPDATE t SET v = 20 WHERE id = 2", "SELECT 1"])
def test_a_column_that_takes_the_name_of_another_one_has_none_of_its_values(
    rows: str, change: str, postgres_database: PostgresDatabase
) -> None:
    """The log gives columns by name and type; the catalogue may be ahead of it."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)")
    replica = Replica(Pump(db, "t"), "t")
    replica.catch_up()
    db.execute(rows)
    db.execute(change)
    for statements in (
        "INSERT INTO t (id) VALUES (6)",
        "INSERT INTO t (id) VALUES (5)",
        "ALTER TABLE t ADD x int; DELETE FROM t WHERE id = 2",
    ):
        db.execute(statements)
        replica.catch_up()
        replica.assert_equal()


@pytest.mark.parametrize("change", _SAME_NAME.values(), ids=_SAME_NAME)
def test_a_column_that_takes_the_name_of_another_one_is_noticed_by_a_replay(
    change: str, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """The table has what is read again; what the catalogue shows at the first row must not count as had, too."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)")
    pipeline = Pipeline(db, tmp_path, "t")
    pipeline.run()
    with pipeline.running_until_it_dies_at("after"):
        db.execute("INSERT INTO t VALUES (3, 30); UPDATE t SET v = 20 WHERE id = 2")
    db.execute(change)
    for statements in (
        "SELECT 1",
        "INSERT INTO t (id) VALUES (5)",
        "ALTER TABLE t ADD x int; DELETE FROM t WHERE id = 2",
    ):
        db.execute(statements)
        pipeline.run()
        pipeline.assert_equal()


def test_a_rename_is_emitted_where_the_catalogue_shows_it(postgres_database: PostgresDatabase) -> None:
    """The log has the names of the moment, which an earlier run may have passed without knowing what they mean."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    start = pump.prepare()
    db.execute("INSERT INTO t VALUES (1); ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (2)")
    seen: list[tuple[Any, int, list[list[int]]]] = []
    for _ in range(2):
        with pump.running() as run:
            run.wait_until(lambda run=run: bool(run.ddl))  # type: ignore[misc]
            if not seen:
                db.execute("INSERT INTO t2 VALUES (3)")
            run.wait_for(pump.source.latest_offset())
        (event,) = run.ddl
        assert (event.operation, event.table, event.prev_table, event.needs_snapshot) == (
            DDLOperation.RENAME_TABLE, pump.table("t2"), pump.table("t"), False,
        )  # fmt: skip
        rows = [[row["id"] for _, row, _, _ in run.changes(name)] for name in ("t", "t2")]
        seen.append((event.offset, event.ordinal, rows))
        pump.offset = start
        db.execute("ALTER TABLE t2 RENAME TO t3; ALTER TABLE t3 RENAME TO t2")
    assert seen[0] == seen[1]
    assert seen[0][2] == [[1, 2], [3]]
    # A session of the server that announces the table before the replayed rename does not announce it again after it.
    db.execute("INSERT INTO t2 VALUES (4)")
    run = pump.read()
    assert [[row["id"] for _, row, _, _ in run.changes(name)] for name in ("t", "t2")] == [[1, 2], [3, 4]]
    pump.offset = start
    # A table that was copied under its new name has it before the rename as well.
    pump.schemas = {pump.table("t2"): schema_of(pump, "t2")}
    run = pump.read()
    assert [row["id"] for _, row, _, _ in run.changes("t2")] == [1, 2, 3, 4]
    assert run.ddl == []


def test_a_replay_emits_an_exchange_of_names_as_it_was(postgres_database: PostgresDatabase) -> None:
    """Whatever names the tables have by then."""
    db = postgres_database
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    pump = Pump(db, "a", "b")
    start = pump.prepare()
    db.execute("BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; COMMIT")
    seen: list[list[Any]] = []
    for _ in range(2):
        with pump.running() as run:
            run.wait_until(lambda run=run: len(run.ddl) >= 2)  # type: ignore[misc]
        seen.append([(e.offset, e.ordinal, e.prev_table, e.table) for e in run.ddl[:2]])
        pump.offset = start
        db.execute(
            f"ALTER TABLE a RENAME TO c{len(seen)}; ALTER TABLE b RENAME TO a; ALTER TABLE c{len(seen)} RENAME TO b"
        )
    assert {(before, now) for *_, before, now in seen[0]} == {
        (pump.table("a"), pump.table("b")),
        (pump.table("b"), pump.table("a")),
    }
    assert [ordinal for _, ordinal, *_ in seen[0]] == [0, 1]
    assert seen[0] == seen[1]


def test_a_replaced_table_needs_a_snapshot(postgres_database: PostgresDatabase) -> None:
    """Dropped and created again under its name, or swapped in by a rename: other rows, which the log does not carry."""
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


def test_a_replaced_table_that_was_copied_and_altered_needs_no_further_snapshot(
    postgres_database: PostgresDatabase,
) -> None:
    """The log is replayed from before the replacement, with the former table's schema; the next run has the later one's."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    db.execute("CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)")
    pump = Pump(db, "t", publication="p")
    pump.prepare()
    db.execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (5)")
    snapshot, _ = pump.snapshot("t")
    snapshot.close()
    db.execute("ALTER TABLE t ADD x int; INSERT INTO t VALUES (6, 6)")
    run = pump.read()
    assert [e.operation for e in run.ddl] == [DDLOperation.TRUNCATE_TABLE, DDLOperation.ALTER_TABLE]
    known = run.ddl[-1].schema
    assert known is not None
    pump.schemas = {pump.table("t"): known}
    db.execute("INSERT INTO t VALUES (7, 7)")
    run = pump.read()
    assert run.ddl == []
    assert run.changes("t")[-1][1] == {"id": 7, "x": 7}
