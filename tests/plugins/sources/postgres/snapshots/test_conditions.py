"""A snapshot follows a condition in every kind of chunk and way of reading, and says whether updates may lack values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator_sdk import TableSnapshot
from replicator_sdk.errors import NeedsUserError
from tests.plugins.sources.postgres.pump import Pump
from tests.plugins.sources.postgres.snapshots.test_snapshot import KINDS, filled, rows_of
from tests.services.postgres.server import PostgresDatabase


def open_with(pump: Pump, condition: str) -> TableSnapshot:
    table = pump.table("t")
    definition = replace(pump.definition, conditions={table: condition})
    reader = pump.source.create_snapshot_reader(definition, pump.context)
    assert reader is not None
    return reader.open(pump.schemas[table])


@pytest.mark.parametrize("kind", ["key", "ctid", "no key"])
def test_only_rows_of_the_condition_are_read(kind: str, postgres_database: PostgresDatabase) -> None:
    pump = filled(postgres_database, *KINDS[kind])
    [(expected,)] = postgres_database.execute("SELECT count(*) FROM t WHERE id % 10 = 3 OR id = 1")
    with open_with(pump, "id % 10 = 3 OR id = 1") as snapshot:
        for way in ({"adbc_rows": 0}, {"adbc_columns": None}):
            snapshot.read = replace(snapshot.read, **way)  # type: ignore[type-var]
            rows = rows_of(snapshot)
            assert len(rows) == expected
            assert all(row["id"] % 10 == 3 or row["id"] == 1 for row in rows)


@pytest.mark.parametrize("condition", ["nmae = 'x'", "id = = 1", "no_function(id)", "count(*) > 1", "id = 'x'"])
def test_a_condition_that_the_server_refuses_is_the_users(condition: str, postgres_database: PostgresDatabase) -> None:
    pump = filled(postgres_database, *KINDS["key"])
    with pytest.raises(NeedsUserError) as refused:
        open_with(pump, condition)
    assert (refused.value.code, refused.value.table) == ("RPL-3607", str(pump.table("t")))


def test_a_condition_cannot_write(postgres_database: PostgresDatabase) -> None:
    postgres_database.execute("CREATE TABLE noted (n int)")
    postgres_database.execute(
        "CREATE FUNCTION notes(n int) RETURNS bool LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.noted VALUES (n); RETURN true; END'",
    )
    pump = filled(postgres_database, *KINDS["key"])
    with open_with(pump, "public.notes(id)") as snapshot, pytest.raises(Exception, match="read-only"):
        rows_of(snapshot)
    assert postgres_database.execute("SELECT count(*) FROM noted") == [(0,)]


def test_updates_may_lack_values_where_a_column_may_be_stored_out_of_line(postgres_database: PostgresDatabase) -> None:
    pump = filled(postgres_database, *KINDS["key"])
    with open_with(pump, "true") as snapshot:
        assert "REPLICA IDENTITY FULL" in snapshot.partial_updates
    postgres_database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    with open_with(pump, "true") as snapshot:
        assert snapshot.partial_updates == ""


def test_updates_of_narrow_columns_have_all_values(postgres_database: PostgresDatabase) -> None:
    with open_with(filled(postgres_database, "id int PRIMARY KEY, v int", "SELECT 1, 1"), "true") as snapshot:
        assert snapshot.partial_updates == ""
