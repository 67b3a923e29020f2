"""A publication that does not deliver all changes of a table is refused or reported."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replicator_sdk import TableId
from replicator_sdk.errors import (
    HistoryLostError,
    NeedsUserError,
    TableHistoryLostError,
)
from replicator_sdk.event import DDLOperation
from replicator_source_postgres.catalogue import TableFacts
from replicator_source_postgres.relation_ids import STATE_KEY, RelationIds
from replicator_source_postgres.replication.publication import Publication, PublishedTable
from tests.plugins.sources.postgres.faults import PREPARED, error_of, publication_of
from tests.plugins.sources.postgres.pump import Pump
from tests.services.postgres.server import PostgresDatabase


def test_a_dropped_publication_is_lost_history(pump: Pump) -> None:
    pump.database.execute(f'DROP PUBLICATION "{publication_of(pump)}"')
    with pytest.raises(HistoryLostError, match="RPL-3208"):
        pump.read()


def test_a_table_removed_from_the_publication_is_reported(pump: Pump) -> None:
    """While running and at the next start; adding it again in silence would lose what changed in between."""
    statement = f'ALTER PUBLICATION "{publication_of(pump)}" DROP TABLE t'
    error = error_of(pump, lambda run: pump.database.execute(statement))
    assert isinstance(error, TableHistoryLostError)
    assert (error.code, error.table) == ("RPL-3209", "public.t")
    assert "then `replicator table retry NAME TABLE`" in error.hint
    with pytest.raises(TableHistoryLostError, match="RPL-3209"):
        pump.read()


def test_a_dropped_table_is_emitted_after_its_last_change(pump: Pump) -> None:
    with pump.running() as run:
        pump.database.execute("INSERT INTO t VALUES (1); DROP TABLE t")
        run.wait_until(lambda: bool(run.ddl))
        assert [e.operation for e in run.ddl] == [DDLOperation.DROP_TABLE]
        assert [row["id"] for _, row, _, _ in run.changes("t")] == [1]


def test_a_publication_without_some_kind_of_change_is_refused(pump: Pump) -> None:
    pump.database.execute("CREATE PUBLICATION poor FOR TABLE t WITH (publish = 'insert')")
    with pytest.raises(NeedsUserError, match="RPL-3304") as caught:
        Pump(pump.database, "t", publication="poor", slot="poor").prepare()
    assert "insert, update, delete, truncate" in caught.value.hint


def test_partitions_must_be_published_under_their_table(pump: Pump) -> None:
    """Only a partitioned table asks for it; a publication of plain tables is taken as it is."""
    db = pump.database
    db.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE p1 PARTITION OF p DEFAULT")
    db.execute("CREATE PUBLICATION poor FOR TABLE t, p")
    Pump(db, "t", publication="poor", slot="poor").prepare()
    with pytest.raises(NeedsUserError, match="RPL-3304") as caught:
        Pump(db, "p", publication="poor", slot="poorer").prepare()
    db.execute(caught.value.hint)
    Pump(db, "p", publication="poor", slot="poorest").prepare()


@pytest.mark.parametrize("clause", ["t WHERE (id > 1)", "t (id)"])
def test_a_publication_with_filters_is_refused(clause: str, pump: Pump) -> None:
    pump.database.execute(f"CREATE PUBLICATION poor FOR TABLE {clause} WITH (publish_via_partition_root = true)")
    with pytest.raises(NeedsUserError, match="RPL-3304"):
        Pump(pump.database, "t", publication="poor", slot="poor").prepare()


def test_a_column_that_is_renamed_while_the_publication_is_checked_is_published(
    pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publication is read before the rename, the table after it."""
    pump.prepare()
    true_tables, renames = Publication.tables, iter(["ALTER TABLE t RENAME v TO renamed"])

    def tables(publication: Publication) -> dict[int, PublishedTable]:
        found = true_tables(publication)
        for rename in renames:
            pump.database.execute(rename)
        return found

    monkeypatch.setattr(Publication, "tables", tables)
    pump.prepare()


def test_a_table_whose_name_another_one_takes_while_it_is_added_is_not_taken_for_published(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be taken later for one that someone has removed from the publication."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    oids = dict(db.execute("SELECT relname, oid::int FROM pg_class WHERE relname IN ('t', 'u')"))
    added = Publication._add

    def late(publication: Publication, missing: Sequence[tuple[TableId, TableFacts]]) -> None:
        db.execute("ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t")
        added(publication, missing)

    monkeypatch.setattr(Publication, "_add", late)
    pump = Pump(db, "t")
    pump.prepare()
    known = RelationIds.load(pump.context.get_state(STATE_KEY))
    assert oids["t"] not in known
    assert db.execute("SELECT tablename FROM pg_publication_tables") == [("t",)]


@pytest.mark.parametrize(
    "make",
    [
        "CREATE TABLE bad (a int)",
        "CREATE TABLE bad (a int PRIMARY KEY); ALTER TABLE bad REPLICA IDENTITY NOTHING",
        "CREATE TABLE bad (a int) PARTITION BY LIST (a); CREATE TABLE bad_1 PARTITION OF bad DEFAULT",
    ],
)
def test_a_table_whose_publication_would_break_the_application_is_refused(
    make: str, postgres_database: PostgresDatabase
) -> None:
    """The application's UPDATE still works, and no other table of the call is added either."""
    db = postgres_database
    db.execute(f"{PREPARED}; {make}; INSERT INTO bad VALUES (1)")
    with pytest.raises(NeedsUserError, match="RPL-3306") as caught:
        Pump(db, "t", "bad").prepare()
    assert "REPLICA IDENTITY FULL; then" in caught.value.hint
    assert "`replicator table retry NAME TABLE`" in caught.value.hint
    db.execute("UPDATE bad SET a = 2; DELETE FROM bad")
    assert db.execute("SELECT count(*) FROM pg_publication_tables")[0][0] == 0
