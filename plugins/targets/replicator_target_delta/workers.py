"""Runs work on files in threads of the driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_THREADS: Final = max(2, min(8, os.cpu_count() or 2))


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
