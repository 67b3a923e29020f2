"""Keeps loads of one table apart: BigQuery allows 1500 a table and day, and charges each MERGE."""

from __future__ import annotations

import time
from collections.abc import Callable

from replicator_sdk.schema import TableId


class LoadRateLimit:
    """Starts a table's next load `interval` seconds after its last one at the earliest; the first at once. Safe from any thread."""

    def __init__(
        self, interval: float, pause: Callable[[float], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._pause = pause
        self._clock = clock
        self._last: dict[TableId, float] = {}

    def seconds_left(self, table: TableId) -> float:
        """How long the table has to wait for its next load; 0 when it may be loaded."""
        last = self._last.get(table)
        return 0.0 if last is None else max(0.0, last + self._interval - self._clock())

    def begin(self, table: TableId) -> None:
        """Note that a load starts now."""
        self._last[table] = self._clock()

    def wait(self, table: TableId) -> None:
        """Wait until the table may be loaded; the load counts as started on return."""
        if (left := self.seconds_left(table)) > 0:
            self._pause(left)
        self.begin(table)
