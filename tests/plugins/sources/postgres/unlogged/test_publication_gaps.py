"""A table that was out of its publication for a while is copied again; one that cannot be added stops alone."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import NeedsUserError, TableHistoryLostError
from tests.plugins.sources.postgres.pump import Pump
from tests.plugins.sources.postgres.replica import Replica
from tests.services.postgres.server import PostgresDatabase

CREATE = "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 5) i"
PUBLISH = "CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root = true)"
CHANGE = "INSERT INTO t VALUES (50, 'not published'); UPDATE t SET v = 'not published' WHERE id = 2"

GAPS = {
    "table": ("ALTER PUBLICATION p DROP TABLE t", "ALTER PUBLICATION p ADD TABLE t"),
    "kinds_of_changes": ("ALTER PUBLICATION p SET (publish = 'delete')",
                         "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"),
    "publication": ("DROP PUBLICATION p", PUBLISH),
}  # fmt: skip
GAPS_SINCE_15 = {
    "row_filter": ("ALTER PUBLICATION p SET TABLE t WHERE (id > 1000)", "ALTER PUBLICATION p SET TABLE t"),
    "column_list": ("ALTER PUBLICATION p SET TABLE t (id)", "ALTER PUBLICATION p SET TABLE t"),
    "schema": ("ALTER PUBLICATION p DROP TABLE t", "ALTER PUBLICATION p ADD TABLES IN SCHEMA public"),
}
SERVER = "CREATE EXTENSION file_fdw; CREATE SERVER s FOREIGN DATA WRAPPER file_fdw"
HARMLESS = {
    "another_table": "CREATE TABLE other (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE other",
    "partitions": "ALTER PUBLICATION p SET (publish_via_partition_root = false)",
    "the_same_table_set": "ALTER PUBLICATION p SET TABLE t",
}


def replica_of(db: PostgresDatabase) -> Replica:
    db.execute(CREATE)
    db.execute(PUBLISH)
    replica = Replica(Pump(db, "t", publication="p"), "t")
    db.execute("INSERT INTO t VALUES (20, 'logged')")
    replica.catch_up()
    replica.assert_equal()
    return replica


def three_runs(replica: Replica) -> None:
    for statement in ("DELETE FROM t WHERE id = 3", "ALTER TABLE t ADD w int DEFAULT 3", "INSERT INTO t VALUES (70)"):
        replica.catch_up()
        replica.assert_equal()
        replica.pump.database.execute(statement)
    replica.catch_up()
    replica.assert_equal()


def check_gap(db: PostgresDatabase, leave: str, come_back: str) -> None:
    replica = replica_of(db)
    db.execute(leave)
    db.execute(CHANGE)
    db.execute(come_back)
    three_runs(replica)
    assert replica.copies == 1


@pytest.mark.parametrize("gap", GAPS)
def test_a_gap_in_publishing_while_no_replicator_ran_leads_to_one_copy(
    gap: str, postgres_oldest_and_newest: PostgresDatabase
) -> None:
    check_gap(postgres_oldest_and_newest, *GAPS[gap])


@pytest.mark.parametrize("gap", GAPS_SINCE_15)
def test_a_gap_of_rows_columns_or_schema_leads_to_one_copy(gap: str, postgres_database: PostgresDatabase) -> None:
    check_gap(postgres_database, *GAPS_SINCE_15[gap])


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_a_change_of_the_publication_that_hides_nothing_leads_to_no_copy(
    change: str, postgres_oldest_and_newest: PostgresDatabase
) -> None:
    replica = replica_of(postgres_oldest_and_newest)
    postgres_oldest_and_newest.execute(change)
    three_runs(replica)
    assert replica.copies == 0


def test_a_table_removed_from_the_publication_stops_until_it_is_added_again_and_is_then_copied(
    postgres_oldest_and_newest: PostgresDatabase,
) -> None:
    """The error's own hint is what is run."""
    db = postgres_oldest_and_newest
    replica = replica_of(db)
    db.execute("ALTER PUBLICATION p DROP TABLE t")
    db.execute(CHANGE)
    hint = ""
    for _ in range(3):
        with pytest.raises(TableHistoryLostError, match="RPL-3209") as caught:
            replica.pump.read()
        assert caught.value.table == "public.t"
        hint = caught.value.hint
    db.execute(hint.split(";")[0])
    three_runs(replica)
    assert replica.copies == 1


def test_tables_of_another_owner_are_named_and_the_others_are_added(
    postgres_oldest_and_newest: PostgresDatabase,
) -> None:
    """The hint's statement, run by the owner, is enough."""
    db = postgres_oldest_and_newest
    role = f"role_{db.name}"
    db.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'secret-of-the-test'")
    try:
        db.execute(
            "CREATE TABLE theirs (id int PRIMARY KEY); CREATE TABLE also (id int PRIMARY KEY); CREATE TABLE mine (id int PRIMARY KEY)"
        )
        db.execute(f"GRANT SELECT ON theirs, also TO {role}; GRANT USAGE ON SCHEMA public TO {role}")
        db.execute(f"ALTER TABLE mine OWNER TO {role}; GRANT CREATE ON DATABASE {db.name} TO {role}")
        db.execute(f"ALTER ROLE {role} NOSUPERUSER REPLICATION")
        pump = Pump(db, "theirs", "also", "mine", user=role, password="secret-of-the-test")
        for table in ("theirs", "also"):
            with pytest.raises(NeedsUserError, match="RPL-3303") as caught:
                pump.prepare()
            assert caught.value.table == f"public.{table}"
            assert db.execute("SELECT tablename FROM pg_publication_tables ORDER BY 1")[0] == ("mine",)
            del pump.schemas[pump.table(table)]
        pump.prepare()
    finally:
        db.execute(f"DROP OWNED BY {role} CASCADE")
        db.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        ("CREATE UNLOGGED TABLE t_1 PARTITION OF t DEFAULT", "RPL-3305"),
        (f"{SERVER}; CREATE FOREIGN TABLE t_1 PARTITION OF t DEFAULT SERVER s OPTIONS (filename '/dev/null')", "RPL-3307"),
    ],
)  # fmt: skip
def test_a_partition_whose_changes_are_not_logged_is_refused(
    make: str, code: str, postgres_database: PostgresDatabase
) -> None:
    """At the start, and when it becomes a partition later."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int) PARTITION BY LIST (id)")
    db.execute(make)
    pump = Pump(db, "t")
    with pytest.raises(NeedsUserError, match=code):
        pump.prepare()
    db.execute("ALTER TABLE t DETACH PARTITION t_1")
    pump.prepare()
    pump.read()
    db.execute("ALTER TABLE t ATTACH PARTITION t_1 DEFAULT")
    for _ in range(3):
        with pytest.raises(NeedsUserError, match=code) as caught:
            pump.read()
        assert caught.value.table == "public.t"
