"""Asks the source every few seconds how it is: whether it answers, its clock, what it keeps for the replicator and for how long.

Why: docs/decisions/0052-a-lag-that-is-true.md
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from replicator_runtime.engine.run_state.progress import SourceView
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk import DeltaSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk.discovery.source_health import SourceHealth

log = structlog.get_logger()
EVERY_SECONDS: Final = 5.0
_RATE_SECONDS: Final = 600.0
_CLOSE_SECONDS: Final = 2.0


class SourceWatch:
    """Reports to the run's progress, from a thread of its own that the run never waits for.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._done = threading.Event()
        self._held: deque[tuple[float, int]] = deque()
        self._thread = threading.Thread(target=self._loop, name="source-watch", daemon=True)

    def start(self) -> None:
        """Begin; the source is asked first after some seconds, so that a short run asks nothing."""
        self._thread.start()

    def close(self) -> None:
        """End; a call that blocks is left to itself."""
        self._done.set()
        self._thread.join(_CLOSE_SECONDS)

    def ask(self) -> None:
        """Ask once; a source that cannot be asked now has not answered."""
        run = self._run
        at, began = time.time(), time.monotonic()
        try:
            health = run.pipeline.source.health(run.saved_offset, namespace=run.config.namespace, name=run.config.name)
        except Exception as error:  # noqa: BLE001 - the reader finds out by itself what is wrong
            log.debug("source.not_asked", error=summary(error))
            return
        if health is None:
            return
        middle = at + (time.monotonic() - began) / 2
        ahead = None if health.clock is None else health.clock - middle
        run.progress.answered(SourceView(time.time(), health, ahead, self._seconds_left(health)))

    def _seconds_left(self, health: SourceHealth) -> float | None:
        """Until the source gives up what it keeps, as it has grown in the last minutes; None when it does not grow, or has no limit."""
        now, held, limit = time.monotonic(), health.held_bytes, health.held_limit_bytes
        lag = self._run.progress.snapshot().lag_seconds
        left = None if health.retention_seconds is None or lag is None else max(0.0, health.retention_seconds - lag)
        if held is None or limit is None:
            return left
        self._held.append((now, held))
        while now - self._held[0][0] > _RATE_SECONDS:
            self._held.popleft()
        since, before = self._held[0]
        if held >= limit:
            return 0.0
        if held > before:
            by_size = (limit - held) * (now - since) / (held - before)
            left = by_size if left is None else min(left, by_size)
        return left

    def _loop(self) -> None:
        while not self._done.wait(EVERY_SECONDS):
            self.ask()


@contextmanager
def watching_source(run: Run) -> Iterator[None]:
    """Ask the run's source within the block, if it can be asked."""
    if type(run.pipeline.source).health is DeltaSource.health:
        yield
        return
    watch = SourceWatch(run)
    watch.start()
    try:
        yield
    finally:
        watch.close()
