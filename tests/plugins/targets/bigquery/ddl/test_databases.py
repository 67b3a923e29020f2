"""Databases are datasets: created before their first table, dropped once nothing is in them but the replicator's own."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from typing import ClassVar

import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.errors import FencedError, RetryableError
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.schema import Column, TableId, rename_table, replace_columns
from replicator_sdk.testing.target_claims.databases import DatabaseClaims
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.ddl.database_ddl import DatabaseDDL
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.tables.catalogue import Catalogue
from tests.crash.kills import harms
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import LOCATION, PROJECT, Emulators, rows


@pytest.fixture
def project(bigquery_emulators: Emulators) -> Iterator[Project]:
    """A project whose tables are in the datasets of their databases; `project.dataset` is one of them."""
    bigquery_emulators.gate.clear()
    made = Project(bigquery_emulators, dataset_name="")
    made.dataset = f"d{uuid.uuid4().hex[:12]}"
    yield made
    arm("")


class TestBigQueryDatabases(DatabaseClaims):
    interruptions: ClassVar[int] = 3

    @pytest.fixture
    def system(self, project: Project) -> Project:
        return project


def created(project: Project) -> DDLEvent:
    return ddl(1, DDLOperation.CREATE_DATABASE, None, table=TableId(project.dataset, ""))


def dropped(project: Project) -> DDLEvent:
    return ddl(9, DDLOperation.DROP_DATABASE, None, table=TableId(project.dataset, ""))


def exists(project: Project) -> bool:
    found = rows(project.emulators, f"SELECT schema_name FROM `{PROJECT}`.INFORMATION_SCHEMA.SCHEMATA")
    return [project.dataset] in found


def customers(project: Project) -> DDLEvent:
    return ddl(2, DDLOperation.CREATE_TABLE, rename_table(KEYED, TableId(project.dataset, "customers")))


def test_a_database_is_a_dataset_that_may_be_created_and_dropped_again(project: Project) -> None:
    consumer = project.consumer()
    for _ in range(2):
        consumer.apply_ddl(created(project))
        assert exists(project)
    for _ in range(2):
        consumer.apply_ddl(dropped(project))
        assert not exists(project)
    consumer.apply_ddl(created(project))
    schema = customers(project).schema
    assert schema is not None
    consumer.apply_ddl(customers(project))
    consumer.apply_batch(batch(3, [insert(row(1), schema)]))
    assert project.count("customers") == 1
    consumer.stop()


def test_a_database_is_dropped_after_its_tables_and_comes_back(project: Project) -> None:
    consumer = project.consumer()
    schema = customers(project).schema
    assert schema is not None
    consumer.apply_ddl(customers(project))
    consumer.apply_batch(batch(3, [insert(row(1), schema)]))
    consumer.apply_ddl(dropped(project))
    assert project.count("customers") == 1, "it holds a table"
    consumer.apply_ddl(ddl(8, DDLOperation.DROP_TABLE, None, table=schema.table))
    consumer.apply_ddl(dropped(project))
    assert not exists(project)
    consumer.begin_snapshot(schema, "plan", customers(project).position)  # type: ignore[arg-type]
    assert project.count("customers") == 0
    consumer.stop()


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE {d}.theirs (id INT64)", "CREATE VIEW {d}.theirs AS SELECT 1 AS one"]
)
def test_what_others_put_into_a_dataset_keeps_it(project: Project, statement: str) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(created(project))
    project.select(statement)
    consumer.apply_ddl(dropped(project))
    assert project.count("theirs") in {0, 1}
    consumer.stop()


def _of_an_operator(project: Project) -> None:
    body = {"datasetReference": {"projectId": PROJECT, "datasetId": project.dataset}, "location": LOCATION}
    where = f"{project.emulators.bigquery_endpoint}/bigquery/v2/projects/{PROJECT}/datasets"
    request = urllib.request.Request(where, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=30).close()


@pytest.mark.parametrize("is_used", [False, True], ids=["never used", "its tables dropped"])
def test_a_dataset_that_the_replicator_did_not_create_stays(project: Project, is_used: bool) -> None:
    _of_an_operator(project)
    consumer = project.consumer()
    consumer.apply_ddl(created(project))
    if is_used:
        consumer.apply_ddl(customers(project))
        consumer.apply_ddl(ddl(3, DDLOperation.DROP_TABLE, None, table=TableId(project.dataset, "customers")))
    consumer.apply_ddl(dropped(project))
    assert exists(project)
    consumer.stop()


def test_an_empty_dataset_that_no_run_has_seen_stays(project: Project) -> None:
    _of_an_operator(project)
    consumer = project.consumer()
    consumer.apply_ddl(dropped(project))
    assert exists(project)
    consumer.stop()


def test_a_dataset_that_another_replicator_created_stays(project: Project) -> None:
    other = project.consumer(name="other")
    other.apply_ddl(created(project))
    consumer = project.consumer()
    consumer.apply_ddl(dropped(project))
    assert exists(project)
    other.apply_ddl(dropped(project))
    assert not exists(project)
    for made in (other, consumer):
        made.stop()


def test_a_dataset_that_another_replicator_writes_too_stays(project: Project) -> None:
    other = project.consumer(name="other")
    other.apply_ddl(customers(project))
    other.apply_ddl(ddl(3, DDLOperation.DROP_TABLE, None, table=TableId(project.dataset, "customers")))
    consumer = project.consumer()
    consumer.apply_ddl(dropped(project))
    assert exists(project)
    for made in (other, consumer):
        made.stop()


def test_a_superseded_run_drops_no_dataset(project: Project) -> None:
    newer = project.consumer(epoch=2)
    newer.apply_ddl(customers(project))
    newer.apply_ddl(ddl(3, DDLOperation.DROP_TABLE, None, table=TableId(project.dataset, "customers")))
    consumer = project.consumer(epoch=1)
    with pytest.raises(FencedError):
        consumer.apply_ddl(dropped(project))
    assert exists(project)
    for made in (newer, consumer):
        made.stop()


def cut(project: Project) -> None:
    """A run that dies when the dataset is empty and not dropped yet."""
    consumer = project.consumer()
    consumer.apply_ddl(created(project))
    arm("bigquery.database.emptied=raise")
    with pytest.raises(RetryableError):
        consumer.apply_ddl(dropped(project))
    arm("")
    consumer.stop()
    assert exists(project)


def test_the_next_run_drops_what_an_interrupted_one_had_emptied(project: Project) -> None:
    cut(project)
    again = project.consumer(epoch=2)
    again.apply_ddl(dropped(project))
    assert not exists(project)
    again.stop()


def test_without_the_drop_of_empty_datasets_an_interrupted_drop_leaves_one(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above."""
    cut(project)
    monkeypatch.setattr(DatabaseDDL, "_why_not", lambda self, ref, of: "it is not known to be the replicator's")
    again = project.consumer(epoch=2)
    again.apply_ddl(dropped(project))
    assert exists(project)
    again.stop()
    harms.append("bigquery.database.emptied")


def test_datasets_are_left_to_an_operator_where_drops_are(bigquery_emulators: Emulators) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, dataset_name="", require_manual_drops=True)
    consumer = project.consumer()
    consumer.apply_ddl(created(project))
    consumer.apply_ddl(dropped(project))
    assert exists(project)
    consumer.stop()


def test_one_dataset_for_all_databases_is_neither_created_nor_dropped_with_one_of_them(
    bigquery_emulators: Emulators,
) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators)
    consumer = project.consumer()
    consumer.apply_ddl(created(project))
    assert not exists(project)
    consumer.apply_ddl(ddl(1, DDLOperation.CREATE_TABLE))
    consumer.apply_ddl(dropped(project))
    assert project.count("customers") == 0
    consumer.stop()


def test_a_table_that_comes_back_with_its_database_is_changed_as_often_as_the_source_changed_it(
    project: Project,
) -> None:
    """The commit log begins again at revision 1; BigQuery remembers the jobs of the former one."""
    consumer = project.consumer()
    schema = customers(project).schema
    assert schema is not None
    more = replace_columns(schema, (*schema.columns, Column("more", STRING)))
    clients = rename_table(more, TableId(project.dataset, "clients"))
    added = (Alter(AlterKind.ADD_COLUMN, column=Column("more", STRING)),)
    for life in (0, 10):
        consumer.apply_ddl(ddl(life + 2, DDLOperation.CREATE_TABLE, schema))
        consumer.apply_batch(batch(life + 3, [insert(row(life), schema)]))
        consumer.apply_ddl(ddl(life + 4, DDLOperation.ALTER_TABLE, more, alters=added))
        consumer.apply_ddl(ddl(life + 5, DDLOperation.RENAME_TABLE, clients, prev_table=schema.table))
        consumer.apply_batch(batch(life + 6, [insert({**row(life + 1), "more": "x"}, clients)]))
        assert [r["more"] for r in project.read_table(clients)] == [None, "x"]
        consumer.apply_ddl(ddl(life + 7, DDLOperation.DROP_TABLE, None, table=clients.table))
        consumer.apply_ddl(ddl(life + 8, DDLOperation.DROP_DATABASE, None, table=TableId(project.dataset, "")))
        assert not exists(project)
    consumer.stop()


def test_what_was_read_ahead_of_a_dataset_is_forgotten_with_it(project: Project) -> None:
    """The second table that a run asks about has the states of all read, which are given out for a minute."""
    schemas = {name: rename_table(KEYED, TableId(project.dataset, name)) for name in "abc"}

    def drop(consumer: BigQueryConsumer, name: str, at: int) -> None:
        consumer.apply_ddl(ddl(at, DDLOperation.DROP_TABLE, None, table=schemas[name].table))

    first = project.consumer()
    for schema in schemas.values():
        first.apply_ddl(ddl(2, DDLOperation.CREATE_TABLE, schema))
    drop(first, "c", 3)
    first.stop()
    consumer = project.consumer(epoch=2)
    for name in "ab":
        assert consumer.progress(schemas[name].table) is not None
        drop(consumer, name, 4)
    consumer.apply_ddl(dropped(project))
    assert not exists(project)
    for name in "ac":
        consumer.apply_ddl(ddl(10, DDLOperation.CREATE_TABLE, schemas[name]))
    consumer.apply_batch(batch(11, [insert(row(1), schemas["c"])], epoch=2))
    assert project.count("c") == 1
    consumer.stop()


def test_a_dataset_is_dropped_though_a_killed_run_left_an_intermediate_table(bigquery_emulators: Emulators) -> None:
    """Of a table that the source drops next: no run streams into that table again, and would look for what it left."""
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    project = streaming(bigquery_emulators, dataset_name="")
    project.dataset = f"d{uuid.uuid4().hex[:12]}"
    schema = customers(project).schema
    assert schema is not None
    killed = project.consumer()
    killed.apply_ddl(customers(project))
    killed.apply_batch(batch(3, [insert(row(1), schema)]))
    assert len(intermediates(project)) == 1
    again = project.consumer(epoch=2)
    again.apply_ddl(ddl(8, DDLOperation.DROP_TABLE, None, table=schema.table))
    assert intermediates(project) == []
    again.apply_ddl(dropped(project))
    assert not exists(project)
    for consumer in (killed, again):
        consumer.stop()


def test_a_run_that_looked_before_a_newer_one_came_drops_nothing_of_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused run wakes up after it has looked whether the dataset holds tables."""
    consumer, newer = project.consumer(), project.consumer(epoch=2)
    consumer.apply_ddl(created(project))
    schema = customers(project).schema
    assert schema is not None
    look = Catalogue.tables

    def paused(self: Catalogue, ref: TableRef, of: TableId) -> list[str] | None:
        found = look(self, ref, of)
        newer.apply_ddl(customers(project))
        newer.apply_batch(batch(3, [insert(row(1), schema)], epoch=2))
        return found

    monkeypatch.setattr(Catalogue, "tables", paused)
    with pytest.raises(FencedError):
        consumer.apply_ddl(dropped(project))
    newer.apply_batch(batch(4, [insert(row(2), schema)], epoch=2))
    assert project.count("customers") == 2
    for made in (newer, consumer):
        made.stop()
