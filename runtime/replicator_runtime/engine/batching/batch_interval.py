"""Decides how long changes wait for more before a batch begins, where the pipeline does not say it."""

from __future__ import annotations

import time
from typing import Final

SHORTEST: Final = 1.0
LONGEST: Final = 4.0
"""With it half of the changes are at the target within three seconds, and nearly all within eight."""
_FEW_A_SECOND: Final = 100
"""Fewer rows than this a second are gathered: a commit costs more than what is in it."""
_BATCHES_BEFORE: Final = 30
"""So many small batches in a row come before the first that waits longer."""
_GROWTH: Final = 1.25
_QUIET_SECONDS: Final = 5.0


class BatchInterval:
    """A second after a quiet time, up to four where few rows come all the time. Used by one thread.

    Args:
        fixed: The pipeline's `batch.maxIntervalSeconds`; None to decide here.
    """

    def __init__(self, fixed: float | None) -> None:
        self._fixed = fixed
        self._seconds = SHORTEST
        self._small = 0
        self._applied_at = time.monotonic()

    def seconds(self, rows: int = 0) -> float:
        """How long changes wait, of which there are `rows` by now; many wait no longer than a second."""
        if self._fixed is not None:
            return self._fixed
        return self._seconds if rows < _FEW_A_SECOND * LONGEST else SHORTEST

    def waiting(self) -> None:
        """A change came when none waited: after a quiet time it waits a second only."""
        if time.monotonic() - self._applied_at > _QUIET_SECONDS:
            self._reset()

    def applied(self, rows: int) -> None:
        """A batch of so many rows begins."""
        now = time.monotonic()
        seconds, self._applied_at = now - self._applied_at, now
        if rows > _FEW_A_SECOND * max(seconds, SHORTEST):
            self._reset()
            return
        self._small += 1
        if self._small > _BATCHES_BEFORE:
            self._seconds = min(LONGEST, self._seconds * _GROWTH)

    def _reset(self) -> None:
        self._seconds, self._small = SHORTEST, 0
