"""Job identifiers: answers get lost, requests are refused or late, and each row is there once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from tests.plugins.targets.bigquery.support.changes import KEYLESS, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.gate import Fault, Request

LOST = Fault(lose_answer=True)
BUSY = Fault(status=429)
AWAY = Fault(status=503)


def load(request: Request) -> bool:
    return request.kind == "load"


def merge(request: Request) -> bool:
    return "MERGE" in request.sql


@pytest.mark.parametrize("on", [load, merge], ids=["load", "merge"])
@pytest.mark.parametrize(
    "faults",
    [(LOST,), (BUSY, Fault(seconds=0.5)), (AWAY, LOST), (LOST, AWAY)],
    ids=["answer lost", "429, then late", "503, then lost", "lost, then 503"],
)
def test_a_batch_is_applied_once(project: Project, on: Callable[[Request], bool], faults: tuple[Fault, ...]) -> None:
    """Rows without a key: any that is staged or merged twice shows."""
    gate = project.emulators.gate
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    gate.plan(*faults, on=on)
    rows = [insert({"name": "a", "number": 1}, KEYLESS)] * 3
    consumer.apply_batch(batch(1, [*rows, delete({"name": "a", "number": 1}, KEYLESS)]))
    assert gate.pending == 0 or faults[0].lose_answer
    assert project.count("log") == 2
    assert project.count("_staging_log") == 4
    progress = consumer.progress(KEYLESS.table)
    assert progress is not None
    assert progress.position == at(1)
    consumer.stop()


def test_the_rows_of_a_result_are_requested_again(project: Project) -> None:
    """They are read by separate requests, after the one that reports the job as done."""
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    faults = [AWAY, LOST, Fault(cut=True), AWAY, LOST]
    project.emulators.gate.plan(*faults, on=lambda r: r.method == "GET" and "/queries/" in r.path)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert project.emulators.gate.pending == 0
    assert project.count("customers") == 1
    consumer.stop()


def test_a_lost_answer_is_looked_up_and_the_job_not_begun_again(project: Project) -> None:
    gate = project.emulators.gate
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.clear()
    gate.plan(LOST, on=load)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert [job.kind for job in gate.jobs] == ["load", "query"]
    consumer.stop()


def test_a_batch_whose_merge_got_no_answer_is_found_done_by_the_next_consumer(project: Project) -> None:
    """The process gives up on a lost answer; what comes after it goes on from what the table says."""
    gate = project.emulators.gate
    first = project.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    first.stop()
    impatient = Project(project.emulators, dataset_name=project.dataset, retry_seconds=1)
    second = impatient.consumer()
    gate.plan(LOST, *[AWAY] * 40, on=lambda r: merge(r) or "/jobs/" in r.path)
    changes = [insert({"name": "a", "number": 1}, KEYLESS)]
    with pytest.raises(RetryableError):
        second.apply_batch(batch(1, changes))
    second.stop()
    gate.clear()
    third = project.consumer()
    third.apply_batch(batch(1, changes))
    assert project.count("log") == 1
    third.stop()


def test_a_job_that_failed_has_used_up_its_identifier_and_the_next_attempt_takes_another(project: Project) -> None:
    """A manually altered table makes the MERGE fail; once it is repaired, the same batch is applied."""
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    project.select("ALTER TABLE {d}.customers RENAME COLUMN name TO other")
    changes = batch(1, [insert(row(1, "a"))])
    with pytest.raises(RetryableError):
        consumer.apply_batch(changes)
    project.select("ALTER TABLE {d}.customers RENAME COLUMN other TO name")
    again = project.consumer()
    again.apply_batch(changes)
    names = [job.body["jobReference"]["jobId"] for job in project.emulators.gate.jobs if merge(job)]
    assert [name.rsplit("_", 1)[1] for name in names] == ["0", "1"]
    assert names[0].rsplit("_", 1)[0] == names[1].rsplit("_", 1)[0]
    assert project.select("SELECT id, name FROM {d}.customers") == [["1", "a"]]
    consumer.stop()
    again.stop()


def test_identifiers_come_from_the_batch_and_not_from_a_clock(project: Project) -> None:
    twin = Project(project.emulators, dataset_name=project.dataset)
    first = project.consumer()
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    first.apply_batch(batch(1, [insert(row(1))]))
    with_epoch_two = twin.consumer(epoch=2)
    with_epoch_two.apply_batch(batch(2, [insert(row(2))], epoch=2))
    jobs = [job.body["jobReference"]["jobId"] for job in project.emulators.gate.jobs if load(job)]
    assert "stage_1-1-1001-1001-" in jobs[0]
    assert "stage_1-2-2001-2001-" in jobs[1]
    first.stop()
    with_epoch_two.stop()


def test_staged_rows_that_have_expired_are_staged_again(project: Project) -> None:
    """A load of long ago answers "done", but its partition is gone: merging nothing would lose the batch."""
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    changes = batch(1, [insert(row(1)), insert(row(2))])
    arm("bigquery.staging.loaded=raise")
    with pytest.raises(RetryableError):
        consumer.apply_batch(changes)
    project.select("DELETE FROM {d}._staging_customers WHERE TRUE")
    again = project.consumer()
    again.apply_batch(changes)
    assert project.count("customers") == 2
    consumer.stop()
    again.stop()


@pytest.mark.parametrize("fault", [LOST, BUSY, AWAY], ids=["answer lost", "429", "503"])
def test_a_snapshots_rows_are_loaded_once(project: Project, fault: Fault) -> None:
    gate = project.emulators.gate
    consumer = project.consumer()
    chunks = [SnapshotChunk(i, {"rest": i, "of": 2}) for i in range(2)]
    read = MemoryChunkReader(KEYLESS, [{"name": str(i), "number": i} for i in range(10)])
    consumer.begin_snapshot(KEYLESS, "plan", at(1))
    gate.plan(fault, on=load)
    consumer.load_chunks(KEYLESS, "plan", chunks, read)
    consumer.finish_snapshot(KEYLESS, "plan", at(1))
    assert gate.pending == 0
    assert project.count("log") == 10
    consumer.stop()


def test_a_flush_takes_three_statements_and_a_load(project: Project) -> None:
    gate = project.emulators.gate
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    gate.clear()
    consumer.apply_batch(batch(2, [update(row(1, "b"), before=row(1)), insert(row(2))]))
    loads, (script,) = [job for job in gate.jobs if load(job)], [job.sql for job in gate.jobs if not load(job)]
    statements = [part.strip() for part in script.split(";\n")]
    reading = [s for s in statements if "`" in s]
    assert len(loads) == 1
    assert [s.split()[0] for s in reading] == ["SET", "IF", "INSERT"]
    assert reading[1].count("MERGE") == 1
    consumer.stop()


def test_no_changes_need_no_merge(project: Project) -> None:
    """A batch that is there already costs nothing at all."""
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    project.emulators.gate.clear()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert project.emulators.gate.jobs == []
    consumer.stop()
