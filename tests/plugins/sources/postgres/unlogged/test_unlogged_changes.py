"""A table is copied again when its rows change in a way that the log does not carry, also while no replicator runs."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import SnapshotNeededError
from replicator_sdk.testing.contexts import CollectingEmitter
from tests.plugins.sources.postgres.pump import Pump, Run
from tests.plugins.sources.postgres.replica import Replica
from tests.services.postgres.server import PostgresDatabase

PARTITIONED = """
CREATE TABLE t (id int, day int, v varchar(20), PRIMARY KEY (id, day)) PARTITION BY LIST (day);
CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2);
INSERT INTO t SELECT i, 1 + i % 2, 'v' || i FROM generate_series(1, 20) i;
CREATE TABLE x (LIKE t INCLUDING ALL)
"""
PLAIN = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE place AS (x int, y int);
CREATE TYPE inside AS ENUM ('low', 'high');
CREATE TYPE listed AS ENUM ('old', 'new');
CREATE TYPE outer_place AS (at place, i inside);
CREATE DOMAIN one AS listed;
CREATE DOMAIN listing AS one;
CREATE TABLE t (id int PRIMARY KEY, day int, v varchar(20), m mood, c place, o outer_place, l listing DEFAULT 'old');
INSERT INTO t SELECT i, 1 + i % 2, 'v' || i, 'ok', row(i, i)::place, row(row(i, i), 'low')::outer_place FROM generate_series(1, 20) i
"""

LOST_IN_A_TREE = {
    "truncate_a_partition": "TRUNCATE t_1",
    "truncate_and_fill_a_partition": "TRUNCATE t_1; INSERT INTO t VALUES (100, 1, 'new')",
    "detach": "ALTER TABLE t DETACH PARTITION t_1",
    "drop": "DROP TABLE t_1",
    "attach_with_rows": "INSERT INTO x VALUES (50, 3, 'x'); ALTER TABLE t ATTACH PARTITION x FOR VALUES IN (3)",
    "attach_in_the_transaction_that_makes_it": (
        "BEGIN; CREATE TABLE y (LIKE t INCLUDING ALL); INSERT INTO y VALUES (50, 3, 'x');"
        " ALTER TABLE t ATTACH PARTITION y FOR VALUES IN (3); COMMIT"
    ),
    "detach_change_attach": (
        "ALTER TABLE t DETACH PARTITION t_1; UPDATE t_1 SET v = 'changed';"
        " ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES IN (1)"
    ),
    "attach_a_tree_with_rows": (
        "CREATE TABLE s (LIKE t INCLUDING ALL) PARTITION BY LIST (id); CREATE TABLE s_1 PARTITION OF s DEFAULT;"
        " INSERT INTO s VALUES (60, 4, 's'); ALTER TABLE t ATTACH PARTITION s FOR VALUES IN (4)"
    ),
    "new_partition_that_is_truncated": (
        "CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3); INSERT INTO t VALUES (50, 3, 'x'); TRUNCATE t_3"
    ),
    "using": "ALTER TABLE t ALTER v TYPE varchar(20) USING upper(v)",
    "using_another_type": "ALTER TABLE t ALTER v TYPE text USING upper(v)",
}
HARMLESS_IN_A_TREE = {
    "new_partition": "CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3)",
    "new_partition_that_is_filled": (
        "CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3); INSERT INTO t SELECT i, 3, 'n' FROM generate_series(1, 9) i"
    ),
    "new_partition_that_is_filled_at_once": (
        "BEGIN; CREATE TABLE t_3 PARTITION OF t FOR VALUES IN (3); INSERT INTO t_3 VALUES (50, 3, 'x'); COMMIT"
    ),
    "attach_without_rows": "ALTER TABLE t ATTACH PARTITION x FOR VALUES IN (3)",
    "new_tree": (
        "CREATE TABLE s PARTITION OF t FOR VALUES IN (4) PARTITION BY LIST (id);"
        " CREATE TABLE s_1 PARTITION OF s DEFAULT; INSERT INTO t VALUES (60, 4, 's')"
    ),
    "vacuum_full": "DELETE FROM t WHERE id < 5; VACUUM FULL t_1",
    "cluster": "CLUSTER t_1 USING t_1_pkey",
    "reindex": "REINDEX TABLE t_1; ANALYZE t; CREATE INDEX ON t (v)",
    "wider_type": "ALTER TABLE t ALTER v TYPE varchar(30)",
    "new_column": "ALTER TABLE t ADD w int",
}
LOST_IN_A_TABLE = {
    "using_a_wider_type": "ALTER TABLE t ALTER day TYPE bigint USING day * 100",
    "using_text": "ALTER TABLE t ALTER v TYPE text USING upper(v)",
    "using_the_same_type": "ALTER TABLE t ALTER v TYPE varchar(20) USING upper(v)",
    "using_and_vacuum": "ALTER TABLE t ALTER day TYPE int USING day * 100; VACUUM FULL t",
    "using_before_an_added_column": "ALTER TABLE t ALTER v TYPE text USING upper(v); ALTER TABLE t ADD w int",
    "volatile_default": "ALTER TABLE t ADD w float8 DEFAULT random(); ALTER TABLE t ALTER w DROP DEFAULT",
    "enum_value_renamed": "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
    "composite_type_altered": "ALTER TYPE place ADD ATTRIBUTE z int",
    "enum_value_renamed_in_a_composite": "ALTER TYPE inside RENAME VALUE 'low' TO 'deep'",
    "enum_value_renamed_in_a_domain_of_a_domain": "ALTER TYPE listed RENAME VALUE 'old' TO 'former'",
    "attribute_of_a_composite_type_dropped": "ALTER TYPE outer_place DROP ATTRIBUTE at",
}
HARMLESS_IN_A_TABLE = {
    "wider_varchar": "ALTER TABLE t ALTER v TYPE varchar(30)",
    "text": "ALTER TABLE t ALTER v TYPE text",
    "truncate": "TRUNCATE t; INSERT INTO t VALUES (1, 1, 'new', 'ok', row(1, 1)::place)",
    "vacuum_full": "DELETE FROM t WHERE id < 5; VACUUM FULL t",
    "vacuum_full_and_not_null": "VACUUM FULL t; ALTER TABLE t ALTER v SET NOT NULL",
    "cluster": "CLUSTER t USING t_pkey",
    "enum_value_added": "ALTER TYPE mood ADD VALUE 'great' BEFORE 'sad'",
    "new_column": "ALTER TABLE t ADD w int DEFAULT 7",
    "statistics": "ALTER TABLE t ALTER v SET STATISTICS 10; ANALYZE t; CREATE INDEX ON t (v); REINDEX TABLE t",
}


def execute(db: PostgresDatabase, statements: str) -> None:
    """Statement by statement, since some may not run inside a transaction."""
    with db.connect() as connection:
        for statement in statements.split(";"):
            connection.execute(statement.encode())


def three_runs(replica: Replica, db: PostgresDatabase) -> None:
    """With changes and a change of structure between them."""
    for run, statements in enumerate(
        ("", "UPDATE t SET v = v || '!' WHERE id = 8", "ALTER TABLE t ADD more int; DELETE FROM t WHERE id = 9")
    ):
        if statements:
            db.execute(statements)
        copies = replica.copies
        replica.catch_up()
        assert run == 0 or replica.copies == copies, "copied again without a reason"
        replica.assert_equal()


CASES = [
    *((PARTITIONED, name, change, True) for name, change in LOST_IN_A_TREE.items()),
    *((PARTITIONED, name, change, False) for name, change in HARMLESS_IN_A_TREE.items()),
    *((PLAIN, name, change, True) for name, change in LOST_IN_A_TABLE.items()),
    *((PLAIN, name, change, False) for name, change in HARMLESS_IN_A_TABLE.items()),
]  # fmt: skip
NAMES = [("tree_" if create is PARTITIONED else "table_") + name for create, name, _, _ in CASES]


@pytest.mark.parametrize(("create", "change", "is_lost"), [(c, s, lost) for c, _, s, lost in CASES], ids=NAMES)
def test_what_changed_while_no_replicator_ran_is_copied_again_if_the_log_lacks_it(
    create: str, change: str, is_lost: bool, postgres_oldest_and_newest: PostgresDatabase
) -> None:
    db = postgres_oldest_and_newest
    execute(db, create)
    replica = Replica(Pump(db, "t"), "t")
    db.execute("INSERT INTO t (id, day, v) VALUES (200, 1, 'logged')")
    replica.catch_up()
    execute(db, change)
    three_runs(replica, db)
    assert replica.copies == is_lost


RUNNING = {
    **{f"tree_{name}": (PARTITIONED, change) for name, change in LOST_IN_A_TREE.items()},
    **{f"table_{name}": (PLAIN, change) for name, change in LOST_IN_A_TABLE.items() if name.startswith("using")},
}


@pytest.mark.parametrize("name", RUNNING)
def test_what_changed_while_a_replicator_runs_is_noticed_without_any_row(
    name: str, postgres_oldest_and_newest: PostgresDatabase
) -> None:
    db = postgres_oldest_and_newest
    create, change = RUNNING[name]
    execute(db, create)
    replica = Replica(Pump(db, "t"), "t")
    run = Run(replica.pump, CollectingEmitter())
    try:
        db.execute("INSERT INTO t VALUES (500, 1)")
        run.wait_for(replica.pump.source.latest_offset())
        execute(db, change)
        run.wait_until(lambda: any(event.needs_snapshot for event in run.ddl))
    finally:
        run.stop()
    assert isinstance(run.error, SnapshotNeededError) or any(event.needs_snapshot for event in run.ddl)
    three_runs(replica, db)


def test_a_difference_is_reported_again_until_the_table_is_copied(postgres_database: PostgresDatabase) -> None:
    """A process may end between noticing and pipeline."""
    db = postgres_database
    execute(db, PARTITIONED)
    replica = Replica(Pump(db, "t"), "t")
    execute(db, "DROP TABLE t_1")
    for _ in range(3):
        db.execute("INSERT INTO t (id, day, v) SELECT 1000 + count(*), 2, 'more' FROM t")
        with pytest.raises(SnapshotNeededError, match="RPL-3606"):
            replica.pump.read()
    three_runs(replica, db)
    assert replica.copies == 1


def test_a_snapshot_is_not_resumed_over_a_change_that_the_log_does_not_hold(
    postgres_database: PostgresDatabase,
) -> None:
    """Nor at a later start, when the process ends before the runtime knows that the copy began from scratch."""
    db = postgres_database
    execute(db, PARTITIONED)
    pump = Pump(db, "t")
    pump.prepare()
    schema = pump.schemas[pump.table("t")]
    reader = pump.source.create_snapshot_reader(pump.definition, pump.context)
    assert reader is not None
    with reader.open(schema) as snapshot:
        chunks = snapshot.chunks
    db.execute("UPDATE t SET v = 'logged'")
    with reader.open(schema, chunks) as snapshot:
        assert snapshot.resumable
    execute(db, "TRUNCATE t_1")
    for _ in range(3):
        with reader.open(schema, chunks) as snapshot:
            assert not snapshot.resumable
    pump.offset = snapshot.position
    db.execute("UPDATE t SET v = 'logged, too'")
    pump.read()
    with reader.open(schema, chunks) as snapshot:
        assert snapshot.resumable


def test_a_table_replaced_under_its_name_is_noticed_without_a_row_of_the_old_one(
    postgres_oldest_and_newest: PostgresDatabase,
) -> None:
    """While no replicator runs, in a publication of all tables: rows of both tables are in the log."""
    db = postgres_oldest_and_newest
    execute(db, PLAIN)
    db.execute("CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true)")
    replica = Replica(Pump(db, "t", publication="everything"), "t")
    execute(db, "ALTER TABLE t RENAME TO old; DROP TABLE old; CREATE TABLE t (id int PRIMARY KEY, v text)")
    db.execute("INSERT INTO t VALUES (1, 'of the new table')")
    for _ in range(3):
        replica.catch_up()
        replica.assert_equal()
        db.execute("INSERT INTO t SELECT max(id) + 1, 'more' FROM t")
    assert replica.copies == 1
