"""Work on executors: results in order, errors of ours as they were raised, others without what they say."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from replicator_sdk import run_on_executors
from replicator_sdk.distributed import stopping
from replicator_sdk.distributed.executors import run_large_work_on_executors
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.timeline import end_recording, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_results_are_in_the_order_of_the_tasks_each_from_a_task_of_its_own(spark: SparkSession) -> None:
    def work(task: int) -> tuple[int, int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "the work is done by an executor"
        time.sleep(0.05 * (3 - task))
        return task, context.partitionId()

    assert run_on_executors(spark, work, range(4)) == [(i, i) for i in range(4)]


def test_an_error_of_ours_arrives_whole_and_ends_its_task_for_good(spark: SparkSession, tmp_path: Path) -> None:
    def work(task: int) -> int:
        (tmp_path / f"{task}-{time.monotonic_ns()}").touch()
        if task == 1:
            raise NeedsUserError("no right to read", code="RPL-3999", hint="grant it", table="shop.orders")
        return task

    with pytest.raises(NeedsUserError) as err:
        run_on_executors(spark, work, [0, 1])
    assert (err.value.code, err.value.hint, err.value.table) == ("RPL-3999", "grant it", "shop.orders")
    assert len(list(tmp_path.glob("1-*"))) == 1


def test_any_other_error_is_reported_by_its_kind_alone(spark: SparkSession) -> None:
    def work(task: int) -> int:
        raise ValueError(f"cannot read 'secret of row {task}'")

    with pytest.raises(RetryableError, match="ValueError") as err:
        run_on_executors(spark, work, [0])
    assert err.value.code == "RPL-4405"
    assert "secret" not in str(err.value)


def test_steps_of_tasks_come_back_while_steps_are_recorded(spark: SparkSession) -> None:
    def work(task: int) -> int:
        from replicator_sdk.timeline import step

        with step("chunk.read", f"chunk {task}"):
            return task

    recorded = record()
    try:
        assert run_on_executors(spark, work, range(3)) == [0, 1, 2]
    finally:
        end_recording()
    assert {one.about for one in recorded.steps if one.name == "chunk.read"} == {"chunk 0", "chunk 1", "chunk 2"}
    assert os.getpid() not in {one.process for one in recorded.steps if one.name == "executor.task"}
    assert [one.name for one in recorded.steps if one.is_wait] == ["executors.wait"]
    assert run_on_executors(spark, work, range(3)) == [0, 1, 2]


def test_without_tasks_spark_is_not_asked() -> None:
    assert run_on_executors(cast("Any", None), str, []) == []


class CountedWork:
    """Work that notes each time it arrives somewhere."""

    def __init__(self, arrivals: Path) -> None:
        self._arrivals = arrivals

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__dict__.update(state)
        (self._arrivals / str(time.monotonic_ns())).touch()

    def __call__(self, task: int) -> int:
        return task * task


def test_large_work_arrives_once_however_many_tasks_it_does(spark: SparkSession, tmp_path: Path) -> None:
    assert run_large_work_on_executors(spark, CountedWork(tmp_path), range(40)) == [n * n for n in range(40)]
    workers = spark.sparkContext.defaultParallelism
    assert 1 <= len(list(tmp_path.iterdir())) <= workers, "once in each of Spark's Python workers"


def test_work_that_is_to_stop_is_cancelled_and_other_work_is_not(spark: SparkSession) -> None:
    began = time.monotonic()

    def slow(task: int) -> int:
        time.sleep(120)
        return task

    def steady(task: int) -> int:
        time.sleep(0.5)
        return task

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(run_on_executors, spark, steady, range(16))
        with pytest.raises(RetryableError, match="RPL-4408"):
            run_on_executors(spark, slow, [0], lambda: time.monotonic() - began > 1)
        assert time.monotonic() - began < 100
        assert other.result(240) == list(range(16))


def test_work_that_ends_soon_after_it_is_to_stop_is_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 100.0)
    begun = tmp_path / "begun"

    def work(task: int) -> int:
        begun.touch()
        time.sleep(1)
        return task

    assert run_on_executors(spark, work, [1], begun.exists) == [1]
