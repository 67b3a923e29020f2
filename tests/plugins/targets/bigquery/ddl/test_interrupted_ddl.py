"""Changes of structure cut between any two statements: three runs later the table is right, and no value is hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import RetryableError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.schema import Column, TableSchema, replace_columns
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_bigquery.consumer import BigQueryConsumer
from tests.plugins.targets.bigquery.cdc.conftest import streaming as changing
from tests.plugins.targets.bigquery.merge_flush.support.projects import settle
from tests.plugins.targets.bigquery.merge_flush.support.projects import streaming as merging
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault

ID, NAME, NOTE = KEYED.columns
TITLE, STARS, MORE = Column("title", STRING), Column("stars", INT64), Column("more", INT64)
NUMBER = Column("name", INT64)
TEMPORARY = Column("t", STRING)
WIDER = replace_columns(KEYED, (*KEYED.columns, STARS))
RENAMED = replace_columns(KEYED, (ID, TITLE, NOTE))
RETYPED = replace_columns(KEYED, (ID, NUMBER, NOTE))
NARROWER = replace_columns(KEYED, (ID, NAME))
SWAPPED = replace_columns(KEYED, (ID, NOTE, NAME))
ADD = Alter(AlterKind.ADD_COLUMN, STARS, default=5)
ADD_EMPTY = Alter(AlterKind.ADD_COLUMN, STARS)
RENAME = Alter(AlterKind.RENAME_COLUMN, TITLE, NAME)
RETYPE = Alter(AlterKind.RETYPE_COLUMN, NUMBER, NAME)
DROP = Alter(AlterKind.DROP_COLUMN, None, NOTE)
ADD_AGAIN = Alter(AlterKind.ADD_COLUMN, NOTE, default="new")
SWAP = (
    Alter(AlterKind.RENAME_COLUMN, TEMPORARY, NAME),
    Alter(AlterKind.RENAME_COLUMN, NAME, NOTE),
    Alter(AlterKind.RENAME_COLUMN, NOTE, TEMPORARY),
)
ROWS = [row(1, "7", "n"), row(2, "8", "m")]
Made = Callable[..., Project]


@dataclass(frozen=True)
class Change:
    """A change of structure of the table that holds `ROWS`.

    Attributes:
        event: It, at position 2.
        schema: The schema after it.
        rows: What the table holds after it, in the schema's columns.
    """

    event: DDLEvent
    schema: TableSchema
    rows: Sequence[dict[str, Any]]


CHANGES = {
    "add with default": Change(alter(2, WIDER, ADD), WIDER, [{**r, "stars": 5} for r in ROWS]),
    "add": Change(alter(2, WIDER, ADD_EMPTY), WIDER, [{**r, "stars": None} for r in ROWS]),
    "drop": Change(alter(2, NARROWER, DROP), NARROWER, [{"id": r["id"], "name": r["name"]} for r in ROWS]),
    "rename": Change(
        alter(2, RENAMED, RENAME), RENAMED, [{"id": r["id"], "title": r["name"], "note": r["note"]} for r in ROWS]
    ),
    "retype": Change(alter(2, RETYPED, RETYPE), RETYPED, [{**r, "name": int(r["name"])} for r in ROWS]),
    "drop, add again": Change(alter(2, KEYED, DROP, ADD_AGAIN), KEYED, [{**r, "note": "new"} for r in ROWS]),
    "swap": Change(alter(2, SWAPPED, *SWAP), SWAPPED, [{**r, "name": r["note"], "note": r["name"]} for r in ROWS]),
    "truncate": Change(ddl(2, DDLOperation.TRUNCATE_TABLE), KEYED, []),
}
MODES: dict[str, Made] = {"batch": Project, "merge-flush": merging, "cdc": changing}
CASES = (
    *(("batch", "rebuild", name) for name in ("retype", "swap", "drop, add again", "truncate")),
    *(("batch", "newColumn", name) for name in ("add with default", "rename", "swap")),
    *(("merge-flush", "newColumn", name) for name in ("rename", "truncate")),
    *(("cdc", "rebuild", name) for name in ("add", "truncate")),
)


def live(consumer: BigQueryConsumer, change: Change, epoch: int) -> None:
    """Bring the table to where this run may, from the very start of the log; each run sees a change and a DDL more."""
    consumer.progress(KEYED.table)
    schema = change.schema
    more = replace_columns(schema, (*schema.columns, MORE))
    rest = {c.name: None for c in schema.columns}
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(r) for r in ROWS], epoch=epoch))
    settle(consumer)
    consumer.apply_ddl(change.event)
    if epoch > 1:
        consumer.apply_batch(batch(3, [insert({**rest, "id": 3}, schema), delete({"id": 2}, schema)], epoch=epoch))
        settle(consumer)
    if epoch > 2:
        consumer.apply_ddl(alter(4, more, Alter(AlterKind.ADD_COLUMN, MORE)))
        consumer.apply_batch(batch(5, [insert({**rest, "id": 4, "more": 4}, more)], epoch=epoch))
        settle(consumer)
    if epoch > 3:
        consumer.apply_batch(batch(6, [update({**rest, "id": 3, "more": 3}, more)], epoch=epoch))
        settle(consumer)
    consumer.stop()


def check(project: Project, change: Change) -> None:
    schema = replace_columns(change.schema, (*change.schema.columns, MORE))
    rest = dict.fromkeys(schema.names)
    wanted = [{**rest, **r} for r in change.rows if r["id"] == 1]
    wanted += [{**rest, "id": 3, "more": 3}, {**rest, "id": 4, "more": 4}]
    assert sorted(project.read_table(schema), key=lambda r: r["id"]) == wanted


def cut(project: Project, change: Change, place: str) -> bool:
    """Let a run die at a place of the change; whether it passed there."""
    first = project.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    first.apply_batch(batch(1, [insert(r) for r in ROWS]))
    settle(first)
    arm(place)
    try:
        first.apply_ddl(change.event)
    except RetryableError:
        return True
    finally:
        arm("")
        first.stop()
    return False


@pytest.mark.parametrize(("mode", "policy", "name"), CASES)
def test_three_runs_after_each_cut_bring_the_table_to_its_end(
    bigquery_emulators: Emulators, mode: str, policy: str, name: str
) -> None:
    """Cut after each statement, and between the last and the note that the change is done."""
    change, met = CHANGES[name], 0
    steps = [f"bigquery.ddl.step=raise@{n}" for n in range(1, 9)] if name != "truncate" else []
    noted = "bigquery.commit.before=raise@2" if steps else "bigquery.commit.before=raise"
    for place in (noted, *steps):
        bigquery_emulators.gate.clear()
        project = MODES[mode](bigquery_emulators, schema_changes=policy)
        if not cut(project, change, place):
            break
        met += 1
        for epoch in (2, 3, 4):
            live(project.consumer(epoch=epoch), change, epoch)
        check(project, change)
    assert met >= 1 + bool(steps), "nothing was cut"


@pytest.mark.parametrize("on", ["ALTER TABLE", "UPDATE"])
def test_a_lost_answer_between_statements_does_nothing_twice(bigquery_emulators: Emulators, on: str) -> None:
    """The run ends without having heard of its statement; the next finds the job by the name that the change gave it."""
    gate, change = bigquery_emulators.gate, CHANGES["add with default"]
    gate.clear()
    project = Project(bigquery_emulators)
    impatient = Project(bigquery_emulators, dataset_name=project.dataset, retry_seconds=1)
    first = impatient.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    first.apply_batch(batch(1, [insert(r) for r in ROWS]))
    gate.plan(
        Fault(lose_answer=True), *[Fault(status=503)] * 40, on=lambda r: r.sql.startswith(on) or "/jobs/" in r.path
    )
    with pytest.raises(RetryableError):
        first.apply_ddl(change.event)
    first.stop()
    ran = [job for job in gate.jobs if job.sql.startswith(on)]
    gate.clear()
    for epoch in (2, 3, 4):
        live(project.consumer(epoch=epoch), change, epoch)
    check(project, change)
    again = [job for job in gate.jobs if job.sql == ran[0].sql]
    assert (len(ran), len(again)) == (1, 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_column_that_is_added_twice_keeps_its_values(bigquery_emulators: Emulators, mode: str) -> None:
    """The source repeats an ADD COLUMN at a later position: the table is copied again, and nothing is renamed meanwhile."""
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators, schema_changes="newColumn")
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_ddl(alter(1, WIDER, ADD_EMPTY))
    consumer.apply_batch(batch(2, [insert({**row(1, "a"), "stars": 9}, WIDER)]))
    settle(consumer)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(alter(3, WIDER, ADD_EMPTY))
    assert err.value.code == "RPL-6564"
    assert err.value.table == "shop.customers"
    assert project.select("SELECT id, stars FROM {d}.customers") == [["1", "9"]]
    consumer.stop()


def test_a_column_that_is_dropped_twice_is_gone(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_ddl(alter(1, NARROWER, DROP))
    consumer.apply_ddl(alter(2, NARROWER, DROP))
    consumer.apply_batch(batch(3, [insert({"id": 1, "name": "a"}, NARROWER)]))
    assert project.count("customers") == 1
    consumer.stop()


def test_a_column_that_is_renamed_twice_has_its_table_copied_again(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_ddl(alter(1, RENAMED, RENAME))
    with pytest.raises(SnapshotNeededError):
        consumer.apply_ddl(alter(2, RENAMED, RENAME))
    consumer.stop()


def test_only_a_former_column_is_renamed_for_a_new_one_of_its_name(bigquery_emulators: Emulators) -> None:
    """The source renames `name`, whose values stay here under it, and adds another `name` a hundred batches later."""
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, schema_changes="newColumn")
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(r) for r in ROWS]))
    consumer.apply_ddl(alter(2, RENAMED, RENAME))
    consumer.apply_batch(batch(3, [insert({"id": 3, "title": "c", "note": None}, RENAMED)]))
    consumer.stop()
    again = project.consumer(epoch=2)
    both = replace_columns(RENAMED, (*RENAMED.columns, NAME))
    again.apply_ddl(alter(4, both, Alter(AlterKind.ADD_COLUMN, NAME)))
    again.apply_batch(batch(5, [insert({"id": 4, "title": "d", "note": None, "name": "new"}, both)], epoch=2))
    found = project.select("SELECT id, title, name FROM {d}.customers ORDER BY id")
    assert found == [["1", "7", None], ["2", "8", None], ["3", "c", None], ["4", "d", "new"]]
    assert project.select("SELECT COUNT(*) FROM {d}.customers AS T WHERE TO_JSON_STRING(T) LIKE '%_before_%'") == [
        ["4"]
    ]
    again.stop()


@pytest.mark.parametrize("policy", ["rebuild", "newColumn"])
def test_a_name_in_other_case_is_one_name(bigquery_emulators: Emulators, policy: str) -> None:
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, schema_changes=policy)
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(r) for r in ROWS]))
    louder = replace_columns(KEYED, (ID, Column("NAME", STRING), NOTE))
    consumer.apply_ddl(alter(2, louder, Alter(AlterKind.RENAME_COLUMN, louder["NAME"], NAME)))
    consumer.apply_batch(batch(3, [update({"id": 1, "NAME": "new", "note": None}, louder)]))
    assert project.select("SELECT id, NAME FROM {d}.customers ORDER BY id") == [["1", "new"], ["2", "8"]]
    consumer.stop()


def half_done(project: Project) -> None:
    first = project.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    first.apply_batch(batch(1, [insert(r) for r in ROWS]))
    settle(first)
    arm("bigquery.ddl.step=raise")
    with pytest.raises(RetryableError):
        first.apply_ddl(CHANGES["add with default"].event)
    arm("")
    first.stop()


@pytest.mark.parametrize("mode", ["batch", "merge-flush"])
def test_rows_that_overtake_an_incomplete_change_have_the_table_copied_again(
    bigquery_emulators: Emulators, mode: str
) -> None:
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    half_done(project)
    consumer = project.consumer(epoch=2)
    identity = BatchIdentity(1, 2, 1003, 1003, at(2))
    consumer.apply_batch(TableChanges(KEYED, identity, [], rows=0, nbytes=0))  # says only how far the log is
    settle(consumer)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_batch(batch(3, [insert({**row(3), "stars": 1}, WIDER)], epoch=2))
    assert err.value.code == "RPL-6565"
    consumer.stop()
    last = project.consumer(epoch=3)
    last.apply_ddl(CHANGES["add with default"].event)
    assert project.select("SELECT stars FROM {d}.customers") == [["5"], ["5"]]
    last.stop()


def test_another_change_after_an_incomplete_one_has_the_table_copied_again(project: Project) -> None:
    half_done(project)
    consumer = project.consumer(epoch=2)
    with pytest.raises(SnapshotNeededError) as err:
        consumer.apply_ddl(alter(3, NARROWER, DROP))
    assert err.value.code == "RPL-6555"
    consumer.begin_snapshot(NARROWER, "again", at(4))
    rows = [{"id": 1, "name": "a"}]
    consumer.load_chunks(NARROWER, "again", [SnapshotChunk(0, {"rest": 0, "of": 1})], MemoryChunkReader(NARROWER, rows))
    consumer.finish_snapshot(NARROWER, "again", at(4))
    consumer.apply_batch(batch(5, [insert({"id": 2, "name": "b"}, NARROWER)], epoch=2))
    assert project.read_table(NARROWER) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    consumer.stop()


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_of_fewer_columns_leaves_exactly_those(bigquery_emulators: Emulators, mode: str) -> None:
    """Also where a run dies in between, and in the staging table: a column may be taken out for what it holds."""
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    consumer = project.consumer()
    for plan, schema in (("one", KEYED), ("two", NARROWER)):
        for place in ("bigquery.commit.before", ""):
            arm(f"{place}=raise" if place else "")
            try:
                consumer.begin_snapshot(schema, plan, at(1))
            except RetryableError:
                consumer.stop()
                consumer = project.consumer()
        rows = [{n: r[n] for n in schema.names} for r in ROWS]
        chunks = [SnapshotChunk(0, {"rest": 0, "of": 1})]
        consumer.load_chunks(schema, plan, chunks, MemoryChunkReader(schema, rows))
        consumer.finish_snapshot(schema, plan, at(1))
        if plan == "one":
            consumer.apply_batch(batch(2, [update(row(1, "x", "secret")), insert(row(3, None, "secret"))]))
            settle(consumer)
    names = project.select("SELECT TO_JSON_STRING(T) FROM {d}.customers AS T ORDER BY id")
    assert len(names) == 2
    assert not any("note" in str(text) for (text,) in names)
    tables = [t for (t,) in project.select("SELECT table_name FROM {d}.INFORMATION_SCHEMA.TABLES")]
    assert "_staging_customers" not in tables
    consumer.apply_batch(batch(3, [insert({"id": 4, "name": "d"}, NARROWER)]))
    settle(consumer)
    assert project.count("customers") == 3
    consumer.stop()
