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
EARLY_COMMITS: Final = 300
"""So many batches need not wait; there is one more of them each `LONGEST` seconds, which is as many as a table has that never rests."""
_EARLY_SECONDS: Final = 0.02
"""What a batch that need not wait waits all the same, for changes that are on their way with the first."""
_ALONE_SECONDS: Final = 1.0
"""Only a change that comes so long after the batch before need not wait: commits one after the other would take the processor from each other."""


class BatchInterval:
    """None for a change that comes alone, while there is a budget for it; else a second, and up to four where few rows come all the time.

    Used by one thread.

    Args:
        fixed: The pipeline's `batch.maxIntervalSeconds`; None to decide here.
    """

    def __init__(self, fixed: float | None) -> None:
        self._fixed = fixed
        self._seconds = SHORTEST
        self._small = 0
        self._applied_at = time.monotonic()
        self._early = float(EARLY_COMMITS)
        self._is_alone = False
        self._counted_at = self._applied_at

    def seconds(self, rows: int = 0, *, is_current: bool = False) -> float:
        """How long changes wait.

        Args:
            rows: So many wait by now; many wait no longer than a second.
            is_current: Whether they are all that there is to read: else they do not come alone.
        """
        if self._fixed is not None:
            return self._fixed
        if is_current and self._is_alone and self._budget() >= 1:
            return _EARLY_SECONDS
        return self._seconds if rows < _FEW_A_SECOND * LONGEST else SHORTEST

    def waiting(self) -> None:
        """A change came when none waited: a second after the batch before it comes alone, and after a quiet time it waits a second only."""
        self._is_alone = time.monotonic() - self._applied_at >= _ALONE_SECONDS
        if time.monotonic() - self._applied_at > _QUIET_SECONDS:
            self._reset()

    def applied(self, rows: int) -> None:
        """A batch of so many rows begins."""
        now = time.monotonic()
        self._early, self._is_alone = max(0.0, self._budget() - 1), False
        seconds, self._applied_at = now - self._applied_at, now
        if rows > _FEW_A_SECOND * max(seconds, SHORTEST):
            self._reset()
            return
        self._small += 1
        if self._small > _BATCHES_BEFORE:
            self._seconds = min(LONGEST, self._seconds * _GROWTH)

    def _budget(self) -> float:
        now = time.monotonic()
        self._early = min(float(EARLY_COMMITS), self._early + (now - self._counted_at) / LONGEST)
        self._counted_at = now
        return self._early

    def _reset(self) -> None:
        self._seconds, self._small = SHORTEST, 0
