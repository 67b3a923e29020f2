"""How many executors a Spark session has: what Spark's own page of executors shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkUsage:
    """What a session has at one moment.

    Attributes:
        executors: Processes that run tasks. With the master `local` the driver is the only one.
        cores: How many tasks they run at once.
        running_tasks: How many they run now.
    """

    executors: int
    cores: int
    running_tasks: int


def usage_of(session: SparkSession) -> SparkUsage:
    """What the session has now; two calls of Java for each executor, and some.

    Raises:
        Exception: When Java does not answer, or was not started by this process's pyspark (Spark Connect).
    """
    context: Any = session.sparkContext
    listed = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - pyspark has no public way
    known = [listed.apply(number) for number in range(listed.size())]
    cores = [(one, int(one.totalCores())) for one in known]
    active = [(one, count) for one, count in cores if count > 0]  # the driver of a cluster has none
    running = sum(int(one.activeTasks()) for one, _ in active)
    return SparkUsage(len(active), sum(count for _, count in active), running)
