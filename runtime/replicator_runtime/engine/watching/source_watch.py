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

from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.views.source_view import SourceView
from replicator_sdk import DeltaSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth

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
        self._probe: HealthProbe | None = None
        self._thread = threading.Thread(target=self._loop, name="source-watch", daemon=True)

    def start(self) -> None:
        """Begin; the source is asked first after some seconds, so that a short run asks nothing."""
        self._thread.start()

    def close(self) -> None:
        """End; a call that blocks is left to itself."""
        self._done.set()
        if (probe := self._probe) is not None:
            probe.close()
        self._thread.join(_CLOSE_SECONDS)

    def ask(self) -> None:
        """Ask once; a source that cannot be asked now has not answered."""
        run = self._run
        at, began = time.time(), time.monotonic()
        try:
            health = self._health()
        except Exception as error:  # noqa: BLE001 - the reader finds out by itself what is wrong
            log.debug("source.not_asked", error=summary(error))
            return
        if health is None:
            return
        middle = at + (time.monotonic() - began) / 2
        ahead = None if health.clock is None else health.clock - middle
        run.progress.answered(SourceView(time.time(), health, ahead, self._seconds_left(health)))

    def _health(self) -> SourceHealth | None:
        run = self._run
        if self._probe is not None:
            return self._probe.ask(run.saved_offset, run.late_offsets)
        return run.pipeline.source.health(run.saved_offset, namespace=run.config.namespace, name=run.config.name)

    def _seconds_left(self, health: SourceHealth) -> float | None:
        """Until the source gives up log that is needed: as it says, as its retention and the lag do, or as what it keeps has grown in the last minutes.

        None when that does not grow, or there is no limit.
        """
        left = health.seconds_left
        if left is None and health.retention_seconds is not None:
            lag = self._run.progress.snapshot().lag_seconds
            left = None if lag is None else max(0.0, health.retention_seconds - lag)
        by_size = self._left_by_size(health)
        return min((one for one in (left, by_size) if one is not None), default=None)

    def _left_by_size(self, health: SourceHealth) -> float | None:
        now, held, limit = time.monotonic(), health.held_bytes, health.held_limit_bytes
        if held is None or limit is None:
            return None
        self._held.append((now, held))
        while now - self._held[0][0] > _RATE_SECONDS:
            self._held.popleft()
        since, before = self._held[0]
        if held >= limit:
            return 0.0
        return (limit - held) * (now - since) / (held - before) if held > before else None

    def _loop(self) -> None:
        if self._done.wait(EVERY_SECONDS):
            return
        config = self._run.config
        probe = self._run.pipeline.source.create_health_probe(namespace=config.namespace, name=config.name)
        self._probe = probe
        try:
            self.ask()
            while not self._done.wait(EVERY_SECONDS):
                self.ask()
        finally:
            if probe is not None:
                probe.close()


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
