"""Renamed tables: renamed at BigQuery wherever the run is interrupted, refused where BigQuery cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replicator_sdk.errors import FencedError, RetryableError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.offset import Position
from replicator_sdk.schema import Column, TableId, TableSchema, rename_table, replace_columns
from replicator_sdk.target import DeferredConsumer
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.ddl import rename
from tests.crash.kills import harms
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Request

CLIENTS = rename_table(KEYED, TableId("shop", "clients"))
NOTES = rename_table(KEYED, TableId("shop", "notes"))
ASIDE = rename_table(KEYED, TableId("shop", "_replicator_renamed_1"))
PLACES = ("bigquery.rename.begun", "bigquery.rename.renamed", "bigquery.rename.committed")
MODES: dict[str, Callable[[Emulators], Project]] = {"batch": Project, "merge-flush": streaming}


@pytest.fixture(params=MODES)
def project(bigquery_emulators: Emulators, request: pytest.FixtureRequest) -> Project:
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    return MODES[request.param](bigquery_emulators)


def renamed(former: TableSchema, schema: TableSchema, position: Position | None = None) -> DDLEvent:
    event = ddl(2, DDLOperation.RENAME_TABLE, schema, prev_table=former.table)
    return replace(event, position=position) if position is not None else event


def write(consumer: BigQueryConsumer, position: int, schema: TableSchema, key: int, epoch: int = 1) -> None:
    consumer.apply_batch(batch(position, [insert(row(key), schema)], epoch=epoch))
    if isinstance(consumer, DeferredConsumer):
        consumer.settle([schema.table])
        consumer.settled(schema.table)


def started(project: Project, *schemas: TableSchema) -> BigQueryConsumer:
    """Tables at position 1 with one row each: 1, 2, and so on."""
    consumer = project.consumer()
    for key, schema in enumerate(schemas or (KEYED,), 1):
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, schema))
        write(consumer, 1, schema, key)
    return consumer


def keys(project: Project, table: str) -> list[str]:
    return [key for (key,) in project.select(f"SELECT id FROM {{d}}.`{table}` ORDER BY id")]


def cut(project: Project, events: list[DDLEvent], place: str, epoch: int = 1) -> bool:
    """A run that dies at `place`; whether it passed there."""
    consumer = project.consumer(epoch=epoch)
    point, _, count = place.partition("@")
    arm(f"{point}=raise@{count or 1}")
    try:
        for event in events:
            consumer.apply_ddl(event)
    except RetryableError:
        return True
    finally:
        arm("")
        consumer.stop()
    return False


@pytest.mark.parametrize("place", PLACES)
def test_a_renamed_table_arrives_wherever_the_run_is_interrupted(project: Project, place: str) -> None:
    started(project).stop()
    event = renamed(KEYED, CLIENTS)
    assert cut(project, [event], place)
    again = project.consumer(epoch=2)
    again.apply_ddl(event)
    write(again, 3, CLIENTS, 2, epoch=2)
    assert keys(project, "clients") == ["1", "2"]
    assert again.progress(KEYED.table) is None
    again.stop()
    last = project.consumer(epoch=3)
    progress = last.progress(CLIENTS.table)
    assert progress is not None
    assert progress.position == at(3)
    last.apply_ddl(ddl(4, DDLOperation.CREATE_TABLE))  # another table takes the former name
    write(last, 5, KEYED, 9, epoch=3)
    assert (keys(project, "customers"), keys(project, "clients")) == (["9"], ["1", "2"])
    last.stop()


def exchange() -> list[DDLEvent]:
    """The steps by which the runtime exchanges `customers` and `notes`; a step that is done is never repeated after a later one."""
    first, last = Position(MemoryOffset(1), 1), Position(MemoryOffset(1), 2)
    return [renamed(KEYED, ASIDE, first), renamed(NOTES, KEYED, last), renamed(ASIDE, NOTES, last)]


@pytest.mark.parametrize("place", [f"{place}@{number}" for place in PLACES for number in (1, 2, 3)])
def test_exchanged_tables_arrive_wherever_the_run_is_interrupted(project: Project, place: str) -> None:
    started(project, KEYED, NOTES).stop()
    steps = exchange()
    assert cut(project, steps, place)
    again = project.consumer(epoch=2)
    for step in steps[int(place.partition("@")[2]) - 1 :]:
        again.apply_ddl(step)
    assert (keys(project, "customers"), keys(project, "notes")) == (["2"], ["1"])
    write(again, 3, NOTES, 5, epoch=2)
    write(again, 3, KEYED, 6, epoch=2)
    assert (keys(project, "customers"), keys(project, "notes")) == (["2", "6"], ["1", "5"])
    assert again.progress(ASIDE.table) is None
    again.stop()


def test_a_table_that_gets_its_former_name_back_keeps_its_rows(project: Project) -> None:
    consumer = started(project)
    consumer.apply_ddl(renamed(KEYED, CLIENTS, at(2)))
    consumer.apply_ddl(renamed(CLIENTS, KEYED, at(3)))
    consumer.apply_ddl(renamed(KEYED, CLIENTS, at(4)))
    write(consumer, 5, CLIENTS, 2)
    assert keys(project, "clients") == ["1", "2"]
    consumer.stop()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_the_new_name_is_not_replaced_and_has_the_renamed_one_copied(project: Project, rows: int) -> None:
    consumer = started(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, CLIENTS))
    if rows:
        write(consumer, 1, CLIENTS, 7)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(renamed(KEYED, CLIENTS))
    assert err.value.code == "RPL-6567"
    assert (keys(project, "customers"), keys(project, "clients")) == (["1"], ["7"][:rows])
    consumer.stop()


def test_an_empty_table_that_an_operator_made_is_not_taken_for_the_renamed_one(project: Project) -> None:
    consumer = started(project)
    project.select("CREATE TABLE {d}.clients (id INT64)")
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(renamed(KEYED, CLIENTS))
    assert err.value.code == "RPL-6567"
    assert keys(project, "customers") == ["1"]
    consumer.stop()


def test_a_table_that_is_not_there_is_copied_under_its_new_name(project: Project) -> None:
    consumer = started(project)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(renamed(NOTES, CLIENTS))
    assert err.value.code == "RPL-6557"
    consumer.stop()


def test_a_rename_that_bigquery_refuses_has_the_table_copied(project: Project) -> None:
    """As of a table into which mode `cdc` has streamed rows before."""
    consumer = started(project)

    def renames(request: Request) -> bool:
        return "RENAME TO" in request.sql

    project.emulators.gate.plan(Fault(fails=True, reason="invalidQuery", message="is being streamed to"), on=renames)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(renamed(KEYED, CLIENTS))
    assert err.value.code == "RPL-6568"
    assert keys(project, "customers") == ["1"]
    consumer.begin_snapshot(CLIENTS, "plan", at(3))
    assert consumer.progress(CLIENTS.table) is not None
    consumer.stop()


def test_a_statement_that_was_asked_for_runs_once(project: Project) -> None:
    """Its answer is lost with the run; the next run finds the job by the note, whatever rows it has added since."""
    started(project).stop()
    event = renamed(KEYED, CLIENTS)
    assert cut(project, [event], "bigquery.rename.begun")
    zombie = project.consumer()
    zombie.progress(KEYED.table)
    zombie.progress(CLIENTS.table)
    again = project.consumer(epoch=2)
    again.apply_ddl(event)
    with pytest.raises((FencedError, SnapshotNeededError)):
        zombie.apply_ddl(event)
    jobs = {
        request.body["jobReference"]["jobId"] for request in project.emulators.gate.jobs if "RENAME TO" in request.sql
    }
    assert len(jobs) == 1
    assert keys(project, "clients") == ["1"]
    for consumer in (zombie, again):
        consumer.stop()


def test_without_the_note_the_next_run_takes_the_renamed_table_for_another(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of a kill after the statement: the table would be copied."""
    started(project).stop()
    event = renamed(KEYED, CLIENTS)
    assert cut(project, [event], "bigquery.rename.renamed")
    monkeypatch.setattr(rename, "_is_begun", lambda state, what: False)
    consumer = project.consumer(epoch=2)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(event)
    assert err.value.code == "RPL-6567"
    consumer.stop()
    harms.append("bigquery.rename.renamed")


def test_what_a_killed_run_streamed_under_the_former_name_is_removed(bigquery_emulators: Emulators) -> None:
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    project = streaming(bigquery_emulators)
    started(project).stop()
    killed = project.consumer()
    killed.apply_batch(batch(2, [insert(row(5))]))  # streamed, and never merged: the consumer is not stopped
    assert len(intermediates(project)) == 1
    again = project.consumer(epoch=2)
    again.apply_ddl(renamed(KEYED, CLIENTS, at(3)))
    assert intermediates(project) == []
    assert keys(project, "clients") == ["1"]
    again.stop()
    killed.stop()


def test_former_columns_follow_the_table(bigquery_emulators: Emulators) -> None:
    """A column that `newColumn` keeps is put aside under the new name too, when the source adds one of its name."""
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, schema_changes="newColumn")
    key, name, note = KEYED.columns
    title = Column("title", name.type)
    wider = replace_columns(CLIENTS, (key, title, note))
    again = replace_columns(CLIENTS, (key, title, note, name))
    consumer = started(project)
    consumer.apply_ddl(
        ddl(
            2,
            DDLOperation.ALTER_TABLE,
            rename_table(wider, KEYED.table),
            alters=(Alter(AlterKind.RENAME_COLUMN, title, name),),
        )
    )
    consumer.apply_ddl(renamed(KEYED, wider, at(3)))
    consumer.apply_ddl(ddl(4, DDLOperation.ALTER_TABLE, again, alters=(Alter(AlterKind.ADD_COLUMN, name),)))
    assert project.select("SELECT name FROM {d}.clients") == [[None]]
    consumer.stop()


_MERGES = {"mode": "merge-flush", "upsert_enabled": True, "delete_enabled": True, "kafka_key_field_name": "key"}


@pytest.mark.parametrize(
    ("former", "table", "settings", "wanted"),
    [
        ("customers", "clients", {}, True),
        ("customers", "_replicator_renamed_1", {}, True),
        ("a-b", "a_b", {}, False),
        ("customers", "_replicator_commits", {}, False),
        ("customers", "clients", {"mode": "cdc"}, False),
        ("customers", "clients", _MERGES, True),
        ("customers", "clients", {"mode": "merge-flush"}, False),
    ],
)
def test_what_can_be_renamed_is_known_from_the_settings(
    bigquery_emulators: Emulators, former: str, table: str, settings: dict[str, object], wanted: bool
) -> None:
    consumer = Project(bigquery_emulators, **settings).consumer()
    bigquery_emulators.gate.clear()
    assert consumer.can_rename(TableId("shop", former), TableId("shop", table)) is wanted
    assert bigquery_emulators.gate.jobs == []
    consumer.stop()


def test_a_table_does_not_leave_its_dataset(bigquery_emulators: Emulators) -> None:
    consumer = Project(bigquery_emulators, dataset_name="").consumer()
    former, table = TableId("shop", "customers"), TableId("other", "customers")
    assert not consumer.can_rename(former, table)
    assert consumer.can_rename(former, TableId("shop", "clients"))
    consumer.stop()
