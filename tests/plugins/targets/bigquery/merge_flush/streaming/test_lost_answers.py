"""Streams: connections break before or after the work is done, and each row is there once."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from replicator_target_bigquery.merge_flush import merge_steps as steps
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, merging
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.gate import Fault, Request
from tests.services.bigquery.write_gate import Loss


@pytest.mark.parametrize(
    ("method", "losses"),
    [
        ("AppendRows", (Loss.ANSWER,)),
        ("AppendRows", (Loss.CALL, Loss.ANSWER, Loss.ANSWER)),
        ("AppendRows", (Loss.NOTHING, Loss.ANSWER)),
        ("CreateWriteStream", (Loss.ANSWER, Loss.CALL)),
    ],
    ids=["answer", "call, then answers", "second answer", "stream made"],
)
def test_a_row_is_streamed_once(project: Project, method: str, losses: tuple[Loss, ...]) -> None:
    consumer, gate = merging(project), project.emulators.write_gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan(method, *losses)
    for position in (1, 2):
        consumer.apply_batch(batch(position, [insert(row(10 * position + i)) for i in range(3)]))
    assert gate.pending == 0
    (table,) = intermediates(project)
    assert project.select(f"SELECT COUNT(*), COUNT(DISTINCT i) FROM {{d}}.`{table}`") == [["6", "6"]]
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(2)
    assert project.count("customers") == 6
    consumer.stop()


@pytest.mark.parametrize("loss", [Loss.CALL, Loss.ANSWER])
def test_several_requests_are_sent_again_from_the_first_without_an_answer(project: Project, loss: Loss) -> None:
    consumer, gate = merging(project), project.emulators.write_gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan("AppendRows", loss)
    consumer.apply_batch(batch(1, [update(row(2), before={"id": 1})]))  # a request for the row, one for the key it left
    (table,) = intermediates(project)
    assert project.select(f"SELECT COUNT(*), COUNT(DISTINCT i) FROM {{d}}.`{table}`") == [["2", "2"]]
    consumer.stop()


def test_a_merge_whose_answer_is_lost_runs_once(project: Project) -> None:
    def merges(request: Request) -> bool:
        return "MERGE" in request.sql

    consumer, gate = merging(project), project.emulators.gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan(Fault(lose_answer=True), on=merges)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.settle([KEYED.table])
    assert gate.pending == 0
    assert sum(merges(job) for job in gate.jobs) == 1
    assert project.count("customers") == 1
    consumer.stop()


def test_rows_that_cannot_be_read_are_not_merged(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed waits a few seconds and hopes; here the transaction counts, and nothing is merged without its rows."""
    monkeypatch.setattr(steps, "_READABLE_SECONDS", 0.01)
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1)), insert(row(2))]))
    (table,) = intermediates(project)
    project.select(f"DELETE FROM {{d}}.`{table}` WHERE `key`.id = 2")
    consumer.settle([KEYED.table])
    with pytest.raises(RetryableError, match="RPL-6609"):
        consumer.settled(KEYED.table)
    with pytest.raises(RetryableError, match="RPL-6609"):
        consumer.apply_batch(batch(2, [insert(row(3))]))
    assert project.count("customers") == 0
    consumer.stop()
    again = merging(project)
    again.apply_batch(batch(1, [insert(row(1)), insert(row(2))]))
    again.settle([KEYED.table])
    assert project.count("customers") == 2
    again.stop()


def test_rows_that_become_readable_late_are_merged_then(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "b"))]))
    (table,) = intermediates(project)
    project.select(f"CREATE TABLE {{d}}.late AS SELECT * FROM {{d}}.`{table}` WHERE `key`.id = 2")
    project.select(f"DELETE FROM {{d}}.`{table}` WHERE `key`.id = 2")
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            project.select(f"INSERT INTO {{d}}.`{table}` SELECT * FROM {{d}}.late")

    monkeypatch.setattr(consumer._jobs, "pause", pause)
    consumer.settle([KEYED.table])
    assert waits == [1.0, 2.0]
    assert consumer.settled(KEYED.table) == at(1)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["1", "a"], ["2", "b"]]
    consumer.stop()
