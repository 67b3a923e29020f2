"""Reads the source's rows while the run is waited for: on an idle source the wait takes as long as reading some million rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from replicator_runtime.spark.pools import in_pool, pool_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ReadT = TypeVar("ReadT")
DoneT = TypeVar("DoneT")


def read_beside(read: Callable[[], ReadT], wait: Callable[[], DoneT], spark: SparkSession) -> tuple[ReadT, DoneT]:
    """Do both at one time: `wait` in the calling thread, `read`, whose work are Spark jobs, in one of its own.

    When `wait` fails, the jobs of `read` are cancelled, since they may take hours; both have ended when this returns or raises.

    Raises:
        Exception: That of `wait`; that of `read` when only it fails.
    """
    context, tag = spark.sparkContext, f"verify-{uuid4()}"
    pool_of_caller = pool_of(context)

    def tagged() -> ReadT:
        context.addJobTag(tag)
        with in_pool(context, pool_of_caller):
            return read()

    with ThreadPoolExecutor(1, "verify") as pool:
        reading = pool.submit(tagged)
        try:
            done = wait()
        except BaseException:
            context.cancelJobsWithTag(tag)
            raise
        return reading.result(), done
