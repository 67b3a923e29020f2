"""Runs tasks on threads of the driver or on Spark's executors, for targets that write files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replicator_sdk.distributed.stopping import jobs_until_stopped, never
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_sdk.timeline import Step, end_recording, record, recording, step, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_THREADS: Final = max(2, min(8, os.cpu_count() or 2))


def is_local(spark: SparkSession) -> bool:
    """Whether the executors are this machine: then a thread can do the same work without starting a process."""
    return str(spark.sparkContext.master).startswith("local")


def run_on_threads(work: Callable[[_Task], _Result], tasks: Iterable[_Task]) -> Iterator[_Result]:
    """Results of `work` on each task in any order; only as many tasks are drawn as there are threads, eight at most.

    Raises:
        Exception: As `work` raised it first, once what was begun has ended; no further task is drawn.
    """
    waiting: set[Future[_Result]] = set()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="work") as pool:
        for task in tasks:
            if len(waiting) >= _THREADS:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
            waiting.add(pool.submit(work, task))
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def run_here(work: Callable[[_Task], _Result], task: _Task) -> _Result:
    """The result of `work` on one task, done by the calling thread, with the errors of `run_on_executors`.

    Raises:
        ReplicatorError: As `work` raised it.
        RetryableError: When it failed otherwise; its text holds no value of a row.
    """
    try:
        return work(task)
    except ReplicatorError:
        raise
    except Exception as err:
        raise _failed("in the driver", type(err).__name__) from err


def run_on_executors(
    spark: SparkSession,
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    is_stopping: Callable[[], bool] = never,
) -> list[_Result]:
    """Results of `work` on each task, in order, one Spark task each. Safe from several threads.

    `work`, tasks and results are pickled; results come to the driver all at once, so they should be small. A
    `ReplicatorError` ends its task for good. After any other error Spark repeats the task, and it may run one task twice at
    the same time: what a run of `work` writes must have no effect unless the returned result names it.

    Args:
        spark: The session.
        work: What each task does.
        tasks: What it is done with.
        is_stopping: Whether all this is to stop: five seconds later its job is cancelled.

    Raises:
        ReplicatorError: As `work` raised it on an executor.
        RetryableError: When a task failed otherwise, after Spark's own attempts; its text holds no value of a row. RPL-4408
            when the job was cancelled.
    """
    if not tasks:
        return []
    context = spark.sparkContext
    try:
        with jobs_until_stopped(context, is_stopping), waiting("executors.wait"):
            guarded = _Guarded(work, records=recording() is not None)
            done: list[Any] = context.parallelize(list(tasks), len(tasks)).map(guarded).collect()
    except RetryableError:
        raise
    except Exception as err:
        raise _failed("on Spark's executors", _cause(err)) from err
    timeline = recording()
    for outcome, steps in done:
        if timeline is not None:
            timeline.add(steps)
        if isinstance(outcome, ReplicatorError):
            raise outcome
    return [outcome for outcome, _ in done]


def run_large_work_on_executors(
    spark: SparkSession,
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    is_stopping: Callable[[], bool] = never,
) -> list[_Result]:
    """As `run_on_executors`; `work` is sent to each executor once instead of with each task.

    Raises:
        ReplicatorError: As `run_on_executors`.
    """
    shared = spark.sparkContext.broadcast(work)
    try:
        # `shared.value` is looked up on the executor: here it would be sent with every task.
        return run_on_executors(spark, lambda task: shared.value(task), tasks, is_stopping)  # noqa: PLW0108
    finally:
        shared.destroy()


def _failed(where: str, cause: str) -> RetryableError:
    return RetryableError(f"work {where} failed: {cause}", code="RPL-4405", hint="retried by itself; see Spark's log")


class _Guarded:
    """Lets our own errors come back as values, since Spark keeps only the text of what a task raises; and the steps of the task."""

    def __init__(self, work: Callable[[Any], Any], *, records: bool) -> None:
        self._work, self._records = work, records

    def __call__(self, task: Any) -> tuple[Any, list[Step]]:
        timeline = record() if self._records else None
        try:
            with step("executor.task"):
                outcome = self._work(task)
        except ReplicatorError as err:
            outcome = err
        finally:
            if self._records:
                end_recording()
        return outcome, [] if timeline is None else timeline.steps


def _cause(err: Exception) -> str:
    """The kind of error, without its text, which may hold values of rows."""
    names = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception))\b", str(err), re.MULTILINE)
    return names[-1] if names else type(err).__name__
