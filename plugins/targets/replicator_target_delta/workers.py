"""Runs work on files where there are hands for it: threads of the driver, or Spark's executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_THREADS: Final = max(2, min(8, os.cpu_count() or 2))


def is_local(spark: SparkSession) -> bool:
    """Whether the executors are this machine: then a thread does the same work without starting a process."""
    return str(spark.sparkContext.master).startswith("local")


def run_threads(work: Callable[[_Task], _Result], tasks: Iterable[_Task]) -> Iterator[_Result]:
    """Results of `work` on each task in any order; only as many tasks are drawn as there are threads."""
    waiting: set[Future[_Result]] = set()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="delta") as pool:
        for task in tasks:
            if len(waiting) >= _THREADS:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
            waiting.add(pool.submit(work, task))
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def run_executors(spark: SparkSession, work: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Results of `work` on each task, one Spark task each; `work` and tasks are pickled."""
    if not tasks:
        return []
    context = spark.sparkContext
    results: list[Any] = context.parallelize(list(tasks), len(tasks)).map(work).collect()
    return results
