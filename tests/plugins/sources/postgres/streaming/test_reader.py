"""What the log says arrives, in order and whole."""

from __future__ import annotations

import pytest

from replicator_sdk.event import DDLOperation
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.server import PostgresDatabase


def test_changes_arrive_in_order_with_their_images(postgres_oldest_and_newest: PostgresDatabase) -> None:
    db = postgres_oldest_and_newest
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute(
        "BEGIN; INSERT INTO t VALUES (1, 'a'), (2, NULL); UPDATE t SET v = 'b' WHERE id = 1;"
        " UPDATE t SET id = 3 WHERE id = 2; DELETE FROM t WHERE id = 1; COMMIT"
    )
    changes = pump.read().changes("t")
    assert [(op, row if op != "D" else None, before) for op, row, before, _ in changes] == [
        ("I", {"id": 1, "v": "a"}, None),
        ("I", {"id": 2, "v": None}, None),
        ("U", {"id": 1, "v": "b"}, None),
        ("U", {"id": 3, "v": None}, {"id": 2, "v": None}),
        ("D", None, {"id": 1, "v": None}),
    ]


def test_a_restart_from_any_commit_gives_the_same_suffix(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    start = pump.prepare()
    for n in range(5):
        db.execute(f"INSERT INTO t VALUES ({n})")
    run = pump.read()
    rows = [row["id"] for _, row, _, _ in run.changes("t")]
    assert rows == [0, 1, 2, 3, 4]
    pump.context.committed = None
    pump.offset = start
    assert [row["id"] for _, row, _, _ in pump.read().changes("t")] == rows


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL", "USING INDEX t_code"])
def test_every_replica_identity_identifies_the_row(identity: str, postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL, v int)")
    db.execute("CREATE UNIQUE INDEX t_code ON t (code)")
    db.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    pump = Pump(db, "t")
    key = ("code",) if "INDEX" in identity else ("id",)
    assert pump.schemas[pump.table("t")].primary_key == key
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)")
    db.execute("UPDATE t SET v = 11 WHERE id = 1")
    db.execute("UPDATE t SET id = 5, code = 'z' WHERE id = 2")
    db.execute("DELETE FROM t WHERE id = 1")
    changes = pump.read().changes("t")
    befores = [before and {k: before[k] for k in key} for _, _, before, _ in changes]
    old = {"code": "y"} if key == ("code",) else {"id": 2}
    gone = {"code": "x"} if key == ("code",) else {"id": 1}
    assert [op for op, *_ in changes] == ["I", "I", "U", "U", "D"]
    assert befores[3:] == [old, gone]
    if identity == "FULL":
        assert changes[2][2] == {"id": 1, "code": "x", "v": 10}
        assert changes[4][2] == {"id": 1, "code": "x", "v": 11}


def test_a_table_without_key_has_whole_rows_before(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL")
    pump = Pump(db, "t")
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)")
    db.execute("UPDATE t SET b = 'y' WHERE a = 1; DELETE FROM t WHERE a IS NULL")
    run = pump.read()
    assert pump.schemas[pump.table("t")].primary_key == ()
    assert [before for op, _, before, _ in run.changes("t") if op != "I"] == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "x"},
        {"a": None, "b": None},
    ]
    assert all(batch.before_is_full for batch in run.batches("t") if batch.before is not None)


def test_unsent_toast_values_are_marked_row_by_row(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    big = "repeat(md5(random()::text), 4000)"
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text, n int)")
    db.execute("ALTER TABLE t ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL")
    pump = Pump(db, "t")
    db.execute(f"INSERT INTO t SELECT i, {big}, {big}, 0 FROM generate_series(1, 3) i")
    pump.prepare()
    db.execute(
        "BEGIN; UPDATE t SET n = 1 WHERE id = 1; UPDATE t SET a = 'new' WHERE id = 2;"
        " UPDATE t SET id = 30 WHERE id = 3; UPDATE t SET a = NULL, b = '' WHERE id = 1; COMMIT"
    )
    changes = pump.read().changes("t")
    assert [unsent for *_, unsent in changes] == [{"a", "b"}, {"b"}, {"a", "b"}, set()]
    assert changes[1][1] == {"id": 2, "a": "new", "b": None, "n": 0}
    assert changes[2][2] == {"id": 3, "a": None, "b": None, "n": None}
    assert changes[3][1] == {"id": 1, "a": None, "b": "", "n": 1}


def test_unsent_values_are_taken_from_a_whole_image_before(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text, n int); ALTER TABLE t REPLICA IDENTITY FULL")
    db.execute("ALTER TABLE t ALTER a SET STORAGE EXTERNAL")
    pump = Pump(db, "t")
    db.execute("INSERT INTO t SELECT 1, repeat('x', 100000), 0")
    pump.prepare()
    db.execute("UPDATE t SET n = 1")
    ((op, row, _, unsent),) = pump.read().changes("t")
    assert (op, unsent, row) == ("U", set(), {"id": 1, "a": "x" * 100000, "n": 1})


def test_an_unsent_toasted_key_is_taken_from_the_key_before(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (k text PRIMARY KEY, n int)")
    db.execute("ALTER TABLE t ALTER k SET STORAGE EXTERNAL; ALTER TABLE t SET (toast_tuple_target = 128)")
    pump = Pump(db, "t")
    key = "k" * 2200
    db.execute(f"INSERT INTO t VALUES ('{key}', 0)")
    pump.prepare()
    db.execute("UPDATE t SET n = 1")
    ((_, row, _, unsent),) = pump.read().changes("t")
    assert (row, unsent) == ({"k": key, "n": 1}, set())


def test_truncate_of_several_tables_is_one_event_for_each(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)")
    pump = Pump(db, "a", "b")
    pump.prepare()
    db.execute(
        "BEGIN; INSERT INTO a VALUES (1); TRUNCATE a CASCADE; INSERT INTO a VALUES (2); COMMIT; INSERT INTO a VALUES (3)"
    )
    run = pump.read()
    assert {(e.operation, e.table.table) for e in run.ddl} == {
        (DDLOperation.TRUNCATE_TABLE, "a"),
        (DDLOperation.TRUNCATE_TABLE, "b"),
    }
    kinds = [type(e).__name__ for e in run.events if e.table.table == "a"]
    assert kinds[:3] == ["ChangeBatch", "DDLEvent", "ChangeBatch"]
    assert [row["id"] for _, row, _, _ in run.changes("a")] == [1, 2, 3]


def test_a_partitioned_table_arrives_under_its_own_name(postgres_oldest_and_newest: PostgresDatabase) -> None:
    """Also when partitions have another column order, and when an update moves a row to another partition."""
    db = postgres_oldest_and_newest
    db.execute("CREATE TABLE p (id int, region text, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region)")
    db.execute("CREATE TABLE p_eu PARTITION OF p FOR VALUES IN ('eu')")
    db.execute("CREATE TABLE p_us (v int, region text NOT NULL, id int NOT NULL, PRIMARY KEY (id, region))")
    db.execute("ALTER TABLE p ATTACH PARTITION p_us FOR VALUES IN ('us')")
    pump = Pump(db, "p")
    pump.prepare()
    db.execute("INSERT INTO p VALUES (1, 'eu', 10), (2, 'us', 20)")
    db.execute("UPDATE p SET region = 'us' WHERE id = 1; UPDATE p SET v = 21 WHERE id = 2; DELETE FROM p WHERE id = 1")
    changes = pump.read().changes("p")
    rows: dict[tuple[object, object], object] = {}
    for op, row, before, _ in changes:
        if op == "D" or before is not None:
            assert before is not None
            rows.pop((before["id"], before["region"]))
        if op != "D":
            rows[row["id"], row["region"]] = row["v"]
    assert rows == {(2, "us"): 21}
    _, table = pump.snapshot("p")
    assert table.to_pylist() == [{"id": 2, "region": "us", "v": 21}]


@pytest.mark.parametrize(
    "name", ["My Table", 'quo"ted', "select", "naïve-ü", "🦆 duck's", "a.b", "back\\slash", "100%s"]
)
def test_any_name_of_table_and_column_works(name: str, postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    quoted = '"' + name.replace('"', '""') + '"'
    db.execute(f"CREATE TABLE {quoted} ({quoted} int PRIMARY KEY, x int)")
    pump = Pump(db, name, publication=name)
    pump.prepare()
    db.execute(f"INSERT INTO {quoted} VALUES (1, 2)")
    assert [row for _, row, _, _ in pump.read().changes(name)] == [{name: 1, "x": 2}]
    assert pump.snapshot(name)[1].to_pylist() == [{name: 1, "x": 2}]


def test_only_captured_tables_are_emitted_and_the_others_still_count(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    db.execute("CREATE PUBLICATION p FOR TABLE a, b WITH (publish_via_partition_root = true)")
    pump = Pump(db, "a", publication="p")
    pump.prepare()
    db.execute("BEGIN; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1), (2); INSERT INTO a VALUES (2); COMMIT")
    run = pump.read()
    assert run.batches("b") == []
    assert [o for batch in run.batches("a") for o in batch.ordinals.tolist()] == [0, 3]


def test_chosen_columns_are_all_that_arrives(postgres_database: PostgresDatabase) -> None:
    """A column that is added later is not wanted either."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a int, secret text)")
    pump = Pump(db, "t")
    pump.schemas[pump.table("t")] = pump.schemas[pump.table("t")].select(["a"])
    pump.narrowed = frozenset(pump.schemas)
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1, 2, 'x'); ALTER TABLE t ADD z int; INSERT INTO t VALUES (2, 3, 'y', 4)")
    run = pump.read()
    assert [row for _, row, _, _ in run.changes("t")] == [{"id": 1, "a": 2}, {"id": 2, "a": 3}]
    assert run.ddl == []
    assert pump.snapshot("t")[1].column_names == ["id", "a"]
