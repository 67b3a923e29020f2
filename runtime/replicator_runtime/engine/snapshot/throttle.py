"""Holds all copies of a run together to a number of rows a second."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SLACK_SECONDS: Final = 1.0
"""So much later than allowed a chunk may begin and count as begun in time, so that waits which end late cost no rows."""


class Throttle:
    """Asked by every copy before it reads a chunk, and given the number of rows of each. Used by several threads.

    After n rows the copies wait until n rows were allowed since reading began, so the average is the limit wherever the copies
    could be faster. Time in which none read is not made up for. Copies that ask at the same moment each read a chunk, and then
    all wait for the rows of all.

    Args:
        rows_per_second: How many; None for as many as there are.
        clock: In seconds.
    """

    def __init__(self, rows_per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rows_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether there is a limit."""
        return self._rate is not None

    def now(self) -> float:
        """The time on this clock."""
        return self._clock()

    def delay(self) -> float:
        """How long to wait, in seconds, before the next chunk is read; 0 when it may be read now."""
        with self._lock:
            return 0.0 if self._free_at is None else max(0.0, self._free_at - self._clock())

    def took(self, rows: int, began: float) -> None:
        """A chunk of `rows` rows was read, from the time `began` on."""
        if self._rate is None:
            return
        with self._lock:
            since = began if self._free_at is None else max(self._free_at, began - _SLACK_SECONDS)
            self._free_at = since + rows / self._rate
