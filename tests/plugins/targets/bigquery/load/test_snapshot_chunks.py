"""Chunks that executors read and write to the bucket: each row once, whatever is repeated, refused or killed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_bigquery.load import snapshot_load as snapshot
from replicator_target_bigquery.load.snapshot_chunks import tasks_of
from tests.plugins.targets.bigquery.support.changes import KEYLESS, at
from tests.plugins.targets.bigquery.support.killed_run import run
from tests.plugins.targets.bigquery.support.numbered_run import CHUNKS, ROWS, Crashing, Numbers, Refusing, load
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.gate import Fault, Gate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIFE = Path(__file__).parents[1] / "support" / "numbered_run.py"


def rows(project: Project) -> list[list[Any]]:
    return sorted(project.select("SELECT name, number FROM {d}.log"))


def loaded_files(project: Project) -> list[str]:
    """The files of the load jobs that were asked for."""
    loads = [job.body["configuration"]["load"] for job in project.emulators.gate.jobs if job.kind == "load"]
    return [uri for one in loads for uri in one["sourceUris"]]


def test_executors_read_the_chunks_and_write_files_of_bounded_size(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FILE_BYTES", 1)  # each batch is a file
    consumer = project.consumer()
    load(consumer, Numbers())
    assert rows(project) == ROWS
    assert len(set(loaded_files(project))) == len(loaded_files(project)) == 10
    assert project.files() == []
    consumer.stop()


def test_one_chunk_is_the_drivers_and_starts_no_spark(project: Project) -> None:
    project.spark = None
    consumer = project.consumer()
    consumer.begin_snapshot(KEYLESS, "plan", at(1))
    for chunk in CHUNKS:
        consumer.load_chunks(KEYLESS, "plan", [chunk], Numbers(by_executors=False))
    consumer.finish_snapshot(KEYLESS, "plan", at(1))
    assert rows(project) == ROWS
    consumer.stop()


def test_what_a_failed_task_or_a_killed_run_has_uploaded_is_never_loaded(project: Project, tmp_path: Path) -> None:
    """In the first wave a task fails with a file in the bucket, and Spark repeats it; in the second the run is killed."""
    assert run(LIFE, project, tmp_path, "bigquery.snapshot.uploaded@2") == -signal.SIGKILL
    assert len(loaded_files(project)) == 6  # of seven that were uploaded
    assert len(project.files()) == 4  # the second wave's
    assert project.count("log") == 60
    consumer = project.consumer(epoch=2)
    load(consumer, Numbers())
    assert rows(project) == ROWS
    assert project.files() == []
    consumer.stop()


@pytest.mark.parametrize(
    ("reader", "error", "message"),
    [(Refusing(), NeedsUserError, "RPL-3999.*Next: grant it"), (Crashing(), RetryableError, "RPL-4405.*ValueError")],
    ids=["an error of ours", "any other"],
)
def test_a_reader_that_fails_on_an_executor_is_reported_and_leaves_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, reader: Any, error: type[Exception], message: str
) -> None:
    monkeypatch.setattr(snapshot, "FILE_BYTES", 1)
    consumer = project.consumer()
    consumer.begin_snapshot(KEYLESS, "plan", at(1))
    with pytest.raises(error, match=message) as err:
        consumer.load_chunks(KEYLESS, "plan", CHUNKS[:2], reader)
    assert "secret" not in str(err.value)
    assert loaded_files(project) == []
    load(consumer, Numbers())
    assert rows(project) == ROWS
    consumer.stop()


@pytest.fixture
def gated(bigquery_emulators: Emulators, spark_on_demand: Callable[[], SparkSession]) -> Iterator[tuple[Project, Gate]]:
    """A dataset whose rows reach the bucket by a gate."""
    gate = Gate(bigquery_emulators.storage_port)
    project = Project(bigquery_emulators, storage_endpoint=f"http://127.0.0.1:{gate.port}")
    project.spark = spark_on_demand
    yield project, gate
    gate.close()


def test_executors_repeat_what_the_bucket_refuses_for_a_moment(gated: tuple[Project, Gate]) -> None:
    project, gate = gated
    gate.plan(Fault(status=503), Fault(status=429), Fault(lose_answer=True), on=lambda r: r.method == "POST")
    consumer = project.consumer()
    load(consumer, Numbers())
    assert gate.pending == 0
    assert rows(project) == ROWS
    assert project.files() == []
    consumer.stop()


def test_what_the_bucket_refuses_executors_for_good_is_reported(gated: tuple[Project, Gate]) -> None:
    project, gate = gated
    gate.plan(Fault(status=403, reason="forbidden"), on=lambda r: r.method == "POST")
    consumer = project.consumer()
    with pytest.raises(NeedsUserError) as err:
        load(consumer, Numbers())
    assert (err.value.code, err.value.table) == ("RPL-6513", "shop.log")
    assert "gs://staging" in err.value.message
    load(consumer, Numbers())
    assert rows(project) == ROWS
    consumer.stop()


@pytest.mark.parametrize("count", [2, 1000, 1001, 5500])
def test_a_load_has_no_more_tasks_than_it_may_have_files(count: int) -> None:
    chunks = [SnapshotChunk(i, {}) for i in range(count)]
    tasks = tasks_of(chunks)
    assert [c for task in tasks for c in task] == chunks
    assert len(tasks) == (count if count <= 1000 else -(-count // -(-count // 1000)))
    assert len(tasks) <= 1000
