"""Asks Spark every few seconds how many executors the run has, for its metrics."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.run_state.spark_handle import SparkHandle

EVERY_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 2.0


@contextmanager
def watching_spark(spark: SparkHandle) -> Iterator[None]:
    """Have `spark.usage` kept true within the block, by a thread of its own that nothing waits for."""
    done = threading.Event()

    def loop() -> None:
        while not done.wait(EVERY_SECONDS):
            spark.look()

    thread = threading.Thread(target=loop, name="spark-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_CLOSE_SECONDS)
