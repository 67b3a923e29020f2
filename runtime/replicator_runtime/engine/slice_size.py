"""How large the next slice of a distributed log shall be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from replicator_runtime.engine.run import Limits

_FIRST_BYTES: Final = 32 << 20
_LEAST_BYTES: Final = 1 << 20
_CATCHING_UP_SECONDS: Final = 10.0
_STEP: Final = 4.0


class SliceSize:
    """Learns from each slice how much of the log can be applied in one commit.

    A slice of a backlog aims at ten seconds, or at the batch's interval where that is longer: nobody waits for the rows of
    a backlog one by one, and every slice costs a job and a commit for each table. Near the log's end slices are what is
    there. Rows and bytes in memory stay within the batch's limits, about.

    Args:
        limits: The run's.

    Attributes:
        limit_bytes: Bytes at the source to ask for.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seconds = max(_CATCHING_UP_SECONDS, limits.max_interval_seconds)
        self.limit_bytes = _FIRST_BYTES

    def is_full(self, log_bytes: int) -> bool:
        """Whether a slice of so many bytes at the source was most of what was asked for: there is more behind it."""
        return log_bytes * 2 > self.limit_bytes

    def learn(self, log_bytes: int, seconds: float, rows: int, nbytes: int) -> None:
        """A slice of `log_bytes` at the source became `rows` changes of `nbytes` in memory, and took `seconds`."""
        if not self.is_full(log_bytes):
            return
        wished = [log_bytes * self._seconds / max(seconds, 0.01)]
        if rows:
            wished.append(log_bytes * self._limits.max_rows / rows)
        if nbytes:
            wished.append(log_bytes * self._limits.max_bytes / nbytes)
        within = min(max(min(wished), self.limit_bytes / _STEP), self.limit_bytes * _STEP)
        self.limit_bytes = max(_LEAST_BYTES, int(within))
