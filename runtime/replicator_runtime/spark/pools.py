"""The pools of Spark's scheduler: what compares tables beside a stream never holds up what applies changes.

Without pools Spark gives out the tasks of a session in the order of its jobs: a job of thousands of tasks would hold up all
later ones. Between pools it divides the cores (`pools.xml`).
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import SparkContext

BESIDE_STREAM: Final = "beside-stream"
_PROPERTY: Final = "spark.scheduler.pool"


def pool_settings() -> Mapping[str, str]:
    """The Spark settings that make the pools; a session without them does all jobs in their order."""
    return {
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (Path(__file__).parent / "pools.xml").as_uri(),
    }


@contextmanager
def in_pool(context: SparkContext, pool: str | None) -> Iterator[None]:
    """Jobs that this thread starts within the block are in `pool`; in the default one when None."""
    before = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, pool)  # type: ignore[arg-type]  # None takes it away
    try:
        yield
    finally:
        context.setLocalProperty(_PROPERTY, before)  # type: ignore[arg-type]


def pool_of(context: SparkContext) -> str | None:
    """The pool of jobs that this thread starts; None for the default one."""
    return context.getLocalProperty(_PROPERTY)
