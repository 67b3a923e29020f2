"""The assessor finds what would fail, and its statements fix it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from replicator_sdk import Finding, Severity, Support
from replicator_sdk.errors import NeedsUserError
from tests.plugins.sources.postgres.pump import Pump, schema_of, source_of
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresDatabase


def system_findings(db: PostgresDatabase, **settings: Any) -> dict[str, Finding]:
    with source_of(db, **settings).create_table_assessor() as assessor:
        return {finding.name: finding for finding in assessor.assess().findings}


def table_findings(pump: Pump, name: str = "t") -> dict[str, Finding]:
    with pump.source.create_table_assessor() as assessor:
        return {f.name: f for f in assessor.assess_table(pump.schemas[pump.table(name)]).findings}


@pytest.fixture
def role(postgres_oldest_and_newest: PostgresDatabase) -> Iterator[tuple[PostgresDatabase, dict[str, str]]]:
    """A database, and the settings of a role that may do nothing yet."""
    db = postgres_oldest_and_newest
    name = f"least_{db.name}"
    db.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pw'")
    yield db, {"user": name, "password": "pw"}
    db.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def test_the_least_privileged_role_of_the_guide_is_enough(role: tuple[PostgresDatabase, dict[str, str]]) -> None:
    """docs/source-postgres.md, sections 2 and 3: the owner publishes, the role only reads."""
    db, login = role
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    db.execute(f"ALTER ROLE {login['user']} REPLICATION; GRANT USAGE ON SCHEMA public TO {login['user']}")
    db.execute(f"GRANT SELECT ON t TO {login['user']}")
    db.execute("CREATE PUBLICATION given FOR TABLE t WITH (publish_via_partition_root = true)")
    pump = Pump(db, "t", publication="given", **login)
    pump.prepare()
    db.execute("INSERT INTO t VALUES (1)")
    assert len(pump.read().changes("t")) == 1
    assert pump.snapshot("t")[1].num_rows == 1
    errors = [f for f in system_findings(db, publication="given", **login).values() if f.severity is Severity.ERROR]
    assert errors == []


def test_every_missing_right_is_found_and_its_statement_fixes_it(role: tuple[PostgresDatabase, dict[str, str]]) -> None:
    db, login = role
    db.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC; CREATE TABLE t (id int PRIMARY KEY)")
    found = system_findings(db, **login)
    assert found["replication_right"].severity is Severity.ERROR
    pump = Pump(db)
    pump.schemas = {pump.table("t"): schema_of(Pump(db), "t")}
    pump.source = source_of(db, **login)
    grants = table_findings(pump)["grants"]
    assert "ownership" in table_findings(pump)
    with pytest.raises(NeedsUserError):
        pump.prepare()
    for finding in (found["replication_right"], found["publication_right"], grants):
        db.execute(finding.fix)
    db.execute("CREATE PUBLICATION given FOR TABLE t WITH (publish_via_partition_root = true)")
    pump.source = source_of(db, publication="given", **login)
    pump.prepare()
    assert "grants" not in table_findings(pump)
    assert not {"replication_right", "publication_right"} & set(system_findings(db, **login))


def test_a_table_without_identity_is_an_error_whose_statement_fixes_it(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (a int)")
    pump = Pump(db, "t")
    finding = table_findings(pump)["replica_identity"]
    assert (finding.severity, finding.code) == (Severity.ERROR, "RPL-3306")
    db.execute(finding.fix)
    assert "replica_identity" not in table_findings(pump)
    pump.prepare()


def test_insufficient_settings_are_found(private_postgres: PrivatePostgres) -> None:
    server = private_postgres(wal_level="replica", max_replication_slots=1, max_wal_senders=1)
    with server.database() as db:
        found = system_findings(db)
        assert found["wal_level"].severity is Severity.ERROR
        assert {"max_replication_slots", "max_wal_senders", "max_slot_wal_keep_size"} <= set(found)
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        with pytest.raises(NeedsUserError, match="RPL-3111"):
            Pump(db, "t").prepare()


def test_an_unreachable_server_is_a_finding(postgres_database: PostgresDatabase) -> None:
    found = system_findings(postgres_database, port=1)
    assert found["connection"].code == "RPL-3107"


def test_the_transfer_of_each_column_is_reported(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n numeric, d date, i interval, a int[], s varchar(3),"
        " g int GENERATED ALWAYS AS (id + 1) STORED)"
    )
    pump = Pump(db, "t")
    with pump.source.create_table_assessor() as assessor:
        assessment = assessor.assess_table(pump.schemas[pump.table("t")])
    support = {c.name: c.support for c in assessment.columns}
    yes, partial = Support.YES, Support.PARTIAL
    assert support == {"id": yes, "n": partial, "d": partial, "i": partial, "a": partial, "s": yes}
    assert all(c.note for c in assessment.columns if c.support is partial)
    assert [f.name for f in assessment.findings] == ["generated_columns"]


def test_a_table_that_does_not_exist_is_an_error(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pump = Pump(db, "t")
    db.execute("DROP TABLE t")
    assert table_findings(pump)["missing_table"].code == "RPL-3301"


def test_tables_are_listed_without_partitions_views_and_system_tables(postgres_database: PostgresDatabase) -> None:
    db = postgres_database
    db.execute(
        "CREATE TABLE b (id int, x text); CREATE UNLOGGED TABLE u (id int); CREATE VIEW v AS SELECT * FROM b;"
        " CREATE TABLE p (id int) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT;"
        ' CREATE SCHEMA "Öther"; CREATE TABLE "Öther"."A t" (id int); INSERT INTO p SELECT generate_series(1, 100); ANALYZE'
    )
    with source_of(db).create_table_registry() as registry:
        listed = registry.list_tables()
    assert [(s.table.schema, s.table.table, s.columns) for s in listed] == [
        ("Öther", "A t", 1), ("public", "b", 2), ("public", "p", 1),
    ]  # fmt: skip
    assert next(s.estimated_rows for s in listed if s.table.table == "p") == 100


def test_a_missing_publication_and_a_table_it_lacks_are_found_and_the_statements_fix_it(
    role: tuple[PostgresDatabase, dict[str, str]],
) -> None:
    db, login = role
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    db.execute(f"ALTER ROLE {login['user']} REPLICATION; GRANT SELECT ON t TO {login['user']}")
    pump = Pump(db)
    pump.schemas = {pump.table("t"): schema_of(Pump(db), "t")}
    pump.source = source_of(db, publication="given", **login)
    absent, lacking = (
        system_findings(db, publication="given", **login)["publication"],
        table_findings(pump)["ownership"],
    )
    assert (absent.severity, lacking.severity) == (Severity.ERROR, Severity.ERROR)
    db.execute(absent.fix)
    assert "publication" not in system_findings(db, publication="given", **login)
    db.execute(lacking.fix)
    assert "ownership" not in table_findings(pump)
