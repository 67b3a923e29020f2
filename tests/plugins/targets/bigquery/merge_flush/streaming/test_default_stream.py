"""Default streams write a row at least once: rows that come twice, or when their batch is long merged, do no harm.

The twins are committed streams, which drop such rows, and a merge that reads a number twice, which does the harm.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, merging, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.write_gate import Loss

HELD = "SELECT id, name FROM {d}.customers ORDER BY id, name"
DELETES_ONLY = {"upsert_enabled": False}


def lossy(project: Project, **settings: Any) -> Project:
    return streaming(project.emulators, **{"use_default_stream": True, **settings})


def cleaned(project: Project) -> str:
    """The intermediate table, once what was merged is removed: that happens after the merge."""
    (table,) = intermediates(project)
    while project.count(table):
        time.sleep(0.05)
    return table


@pytest.mark.parametrize("form", [{}, DELETES_ONLY, {"delete_enabled": False}], ids=str)
def test_rows_that_come_twice_are_merged_once(project: Project, form: dict[str, bool]) -> None:
    written = lossy(project, **form)
    consumer, gate = merging(written), project.emulators.write_gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan("AppendRows", Loss.ANSWER, Loss.LATE, Loss.NOTHING, Loss.ANSWER)
    consumer.apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b"))]))
    consumer.apply_batch(batch(2, [update(row(1, "c"))]))
    assert (gate.pending, gate.arrive()) == (0, 1)
    assert "CreateWriteStream" not in gate.calls
    (table,) = intermediates(written)
    assert written.select(f"SELECT COUNT(*), COUNT(DISTINCT i) FROM {{d}}.`{table}`") == [["8", "3"]]
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(2)
    every = [["1", name] for name in "abc"]
    assert written.select(HELD) == (every if form == DELETES_ONLY else every[-1:])
    consumer.stop()


@pytest.mark.parametrize("form", [{}, DELETES_ONLY], ids=str)
def test_rows_that_arrive_after_their_merge_are_never_merged(project: Project, form: dict[str, bool]) -> None:
    written = lossy(project, **form)
    consumer, gate = merging(written), project.emulators.write_gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan("AppendRows", Loss.LATE)
    for position, changes in enumerate(([insert(row(1, "old"))], [delete({"id": 1}), insert(row(2))]), 1):
        consumer.apply_batch(batch(position, changes))
        consumer.settle([KEYED.table])
    table = cleaned(written)
    assert gate.arrive() == 1
    assert written.select(f"SELECT batchNumber, value.name FROM {{d}}.`{table}`") == [["1", "old"]]
    consumer.apply_batch(batch(3, [insert(row(3))]))
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(3)
    assert written.select(HELD) == [["2", None], ["3", None]]
    consumer.stop()


def test_a_second_merge_of_a_number_would_bring_them_back(project: Project) -> None:
    """So that the test above can fail."""
    written = lossy(project)
    consumer, gate = merging(written), project.emulators.write_gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan("AppendRows", Loss.LATE)
    for position, changes in enumerate(([insert(row(1, "old"))], [delete({"id": 1})]), 1):
        consumer.apply_batch(batch(position, changes))
        consumer.settle([KEYED.table])
    cleaned(written)
    gate.arrive()
    script = next(job.sql for job in project.emulators.gate.jobs if "MERGE `" in job.sql and written.dataset in job.sql)
    written.select(script[script.index("MERGE `") :].split(";\n", 1)[0])
    assert written.select(HELD) == [["1", "old"]]
    consumer.stop()


def test_committed_streams_drop_late_rows(project: Project) -> None:
    consumer, gate = merging(project), project.emulators.write_gate
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan("AppendRows", Loss.LATE)
    consumer.apply_batch(batch(1, [insert(row(1, "old"))]))
    assert gate.arrive() == 1
    (table,) = intermediates(project)
    assert project.count(table) == 1
    consumer.stop()


def test_a_table_that_was_just_created_may_be_unknown_for_a_moment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not once it has taken rows: then another program has removed it."""
    written = lossy(project)
    consumer, gate = merging(written), project.emulators.write_gate
    waits: list[float] = []
    monkeypatch.setattr(consumer._jobs, "pause", waits.append)
    gate.plan("GetWriteStream", Loss.UNKNOWN, Loss.ANSWER)
    gate.plan("AppendRows", Loss.UNKNOWN, Loss.NOTHING, Loss.UNKNOWN)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert waits[0] == 1.0
    assert len(waits) == 3, "unknown, without an answer, and unknown again"
    with pytest.raises(RetryableError, match="RPL-6606"):
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert gate.pending == 0
    consumer.stop()
