"""A batch of more than one file is written in parallel, and arrives as any other."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_target_bigquery.batch import parallel_upload as spreading
from replicator_target_bigquery.batch.parallel_upload import parts_of
from tests.plugins.targets.bigquery.support.changes import batch, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project

COUNT = 3000


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is too large for one file, and every 20 kB are a part."""
    monkeypatch.setattr(spreading, "FILE_BYTES", 0)
    monkeypatch.setattr(spreading, "PART_BYTES", 20_000)


def loaded_files(project: Project) -> int:
    """The files of the last load."""
    loads = [job.body["configuration"]["load"] for job in project.emulators.gate.jobs if job.kind == "load"]
    return len(set(loads[-1]["sourceUris"]))


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize("workers", ["threads", "executors", "too large for a task"])
def test_a_large_batch_arrives_whole(project: Project, monkeypatch: pytest.MonkeyPatch, workers: str) -> None:
    if workers != "threads":
        monkeypatch.setattr(spreading, "is_local", lambda _spark: False)
    if workers == "too large for a task":
        monkeypatch.setattr(spreading, "_TASK_BYTES", 0)
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(i, f"n{i}", f"t{i}")) for i in range(COUNT)]))
    assert loaded_files(project) > 2  # executors take two at a time
    changed = [update(row(i, "changed", f"t{i}")) for i in range(0, COUNT, 3)]
    consumer.apply_batch(batch(2, [*changed, *(delete({"id": i}) for i in range(1, COUNT, 3))]))
    assert project.files() == []
    found = project.select("SELECT id, name, note FROM {d}.customers ORDER BY id")
    assert found == [[str(i), f"n{i}" if i % 3 else "changed", f"t{i}"] for i in range(COUNT) if i % 3 != 1]
    consumer.stop()


def test_a_batch_of_one_file_is_the_drivers_and_starts_no_spark(project: Project) -> None:
    project.spark = None
    consumer = project.consumer()
    consumer.apply_batch(batch(1, [insert(row(i)) for i in range(100)]))
    assert loaded_files(project) == 1
    consumer.stop()


@given(st.lists(st.lists(st.text(max_size=200), max_size=30), max_size=8), st.integers(1, 2000))
def test_parts_are_the_rows_in_order_and_bounded(texts: list[list[str]], size: int) -> None:
    tables = [pa.table({"t": pa.array(column, pa.string())}) for column in texts]
    parts = list(parts_of(tables, size))
    assert [v for part in parts for piece in part for v in piece["t"].to_pylist()] == [v for c in texts for v in c]
    for part in parts:
        assert sum(piece.nbytes for piece in part[:-1]) < size
