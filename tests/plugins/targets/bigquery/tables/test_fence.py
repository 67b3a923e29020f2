"""Ownership of a table: foreign tables, other tables of one name, and newer runs are refused."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud.bigquery import Table

from replicator_sdk.errors import FencedError, NeedsUserError, RetryableError
from replicator_sdk.event import DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.schema import TableId, rename_table
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_bigquery.schema.table_info import TableInfo
from tests.plugins.targets.bigquery.support.changes import KEYED, KEYLESS, at, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project

CHUNKS = [SnapshotChunk(i, {"rest": i, "of": 2}) for i in range(2)]
ROWS = MemoryChunkReader(KEYLESS, [{"name": str(i), "number": i} for i in range(10)])


def test_a_superseded_run_cannot_write_once_the_newer_run_has_read_progress(project: Project) -> None:
    zombie = project.consumer(epoch=1)
    zombie.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    newer = project.consumer(epoch=2)
    assert newer.progress(KEYED.table) is not None
    with pytest.raises(FencedError):
        zombie.apply_batch(batch(1, [insert(row(1))]))
    assert project.count("customers") == 0


def test_two_writers_of_one_epoch_do_not_write_over_each_other(project: Project) -> None:
    first, second = project.consumer(), project.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    assert second.progress(KEYED.table) is not None
    first.apply_batch(batch(1, [insert(row(1))]))
    with pytest.raises(RetryableError):
        second.apply_batch(batch(2, [insert(row(2))]))
    second.apply_batch(batch(2, [insert(row(2))]))
    assert project.count("customers") == 2


def test_a_foreign_table_is_refused(project: Project) -> None:
    project.consumer().apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    project.select("CREATE TABLE {d}.customers (id INT64, name STRING, note STRING)")
    project.select("INSERT INTO {d}.customers (id) VALUES (1)")
    with pytest.raises(NeedsUserError) as err:
        project.consumer().progress(KEYED.table)
    assert err.value.code == "RPL-6524"


@pytest.mark.parametrize(
    "reported", [{"type": "VIEW"}, {"type": "EXTERNAL"}, {"streamingBuffer": {"estimatedRows": "3"}}]
)
def test_what_another_program_has_made_is_refused_also_without_rows_of_its_own(
    project: Project, monkeypatch: pytest.MonkeyPatch, reported: dict[str, Any]
) -> None:
    """A view would be dropped; rows that were streamed a moment ago are not counted yet. The emulator reports neither."""
    project.consumer().apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    project.select("CREATE TABLE {d}.customers (id INT64, name STRING, note STRING)")
    assert project.consumer().progress(KEYED.table) is None
    read = TableInfo.from_api
    monkeypatch.setattr(TableInfo, "from_api", lambda table: read(Table.from_api_repr(table.to_api_repr() | reported)))
    with pytest.raises(NeedsUserError) as err:
        project.consumer().progress(KEYED.table)
    assert err.value.code == "RPL-6524"


@pytest.mark.parametrize("epoch", [1, 5])
def test_another_replicators_table_is_refused_whatever_its_epoch_is(project: Project, epoch: int) -> None:
    project.consumer(name="one", epoch=epoch).apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    with pytest.raises(NeedsUserError) as err:
        project.consumer(name="two").progress(KEYED.table)
    assert "default/one" in err.value.message


def test_two_tables_of_one_name_are_refused(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    twin = rename_table(KEYED, TableId("other", "customers"))
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, twin))
    assert err.value.code == "RPL-6523"


@pytest.mark.parametrize("place", ["uploaded", "announced", "loaded"])
def test_an_unconfirmed_load_is_settled_by_the_next_run(project: Project, place: str) -> None:
    """It ran, or it can never run any more; either way every row is there once."""
    first = project.consumer()
    first.begin_snapshot(KEYLESS, "plan", at(1))
    arm(f"bigquery.snapshot.{place}=raise")
    with pytest.raises(RetryableError):
        first.load_chunks(KEYLESS, "plan", CHUNKS, ROWS)
    arm("")
    second = project.consumer(epoch=2)
    held = second.begin_snapshot(KEYLESS, "plan", at(2))
    assert held == (frozenset({0, 1}) if place == "loaded" else frozenset())
    second.load_chunks(KEYLESS, "plan", [c for c in CHUNKS if c.index not in held], ROWS)
    second.finish_snapshot(KEYLESS, "plan", at(2))
    assert project.count("log") == 10


def test_an_announced_load_of_a_superseded_run_never_runs_once_another_run_has_begun(project: Project) -> None:
    """The zombie slept between announcing and loading; its identifier is used up when it wakes."""
    zombie, newer = project.consumer(epoch=1), project.consumer(epoch=2)
    zombie.begin_snapshot(KEYLESS, "plan", at(1))
    run = zombie._session.jobs.load
    woken: list[object] = []

    def sleeps(*args: object) -> object:
        assert newer.begin_snapshot(KEYLESS, "another", at(5)) == frozenset()
        newer.load_chunks(KEYLESS, "another", CHUNKS, ROWS)
        newer.finish_snapshot(KEYLESS, "another", at(5))
        woken.append(run(*args))  # type: ignore[arg-type]
        return woken[-1]

    zombie._session.jobs.load = sleeps  # type: ignore[method-assign, assignment]
    with pytest.raises(FencedError):
        zombie.load_chunks(KEYLESS, "plan", CHUNKS, ROWS)
    assert woken
    assert project.count("log") == 10


def test_the_progress_of_a_quiet_table_is_found_after_many_restarts(project: Project) -> None:
    project.consumer().apply_batch(batch(5, [insert(row(1))]))
    columns = "table_name, revision, kind, owner, epoch, batch, source, progress, chunks, note"
    project.select(
        f"INSERT INTO {{d}}._replicator_commits ({columns}) SELECT table_name, revision + n, 'claimed', owner, 1, 'c', source,"
        " NULL, '[]', '' FROM {d}._replicator_commits, UNNEST(GENERATE_ARRAY(1, 300)) AS n"
    )
    found = project.consumer(epoch=2).progress(KEYED.table)
    assert found is not None
    assert found.position == at(5)


def test_maintenance_removes_old_commits_and_never_the_last_of_a_table(project: Project) -> None:
    consumer = project.consumer()
    for position in (1, 2, 3):
        consumer.apply_batch(batch(position, [insert(row(position))]))
    project.select("UPDATE {d}._replicator_commits SET committed_at = TIMESTAMP '2020-01-01 00:00:00+00' WHERE TRUE")
    context = project.context()
    (task,) = project.target.maintenance_tasks
    project.target.maintain_table(context, task, KEYED.table)
    assert project.select("SELECT revision FROM {d}._replicator_commits") == [["3"]]
    consumer.apply_batch(batch(4, [insert(row(4))]))
    assert project.count("customers") == 4


def test_old_commits_of_a_dataset_are_removed_once_a_day_for_all_its_tables(project: Project) -> None:
    consumer, context = project.consumer(), project.context()
    (task,) = project.target.maintenance_tasks
    for position, left in ((2, ["2"]), (3, ["2", "3"])):
        consumer.apply_batch(batch(position - 1, [insert(row(position - 1))]))
        consumer.apply_batch(batch(position, [insert(row(position))]))
        project.select(
            "UPDATE {d}._replicator_commits SET committed_at = TIMESTAMP '2020-01-01 00:00:00+00' WHERE TRUE"
        )
        project.target.maintain_table(context, task, KEYED.table)
        found = project.select("SELECT revision FROM {d}._replicator_commits ORDER BY revision")
        assert found == [[revision] for revision in left]
