"""Chooses the size of the next slice of a distributed log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.run import Limits

_FIRST_BYTES: Final = 32 << 20
_LEAST_BYTES: Final = 1 << 20
_CATCHING_UP_SECONDS: Final = 10.0
_STEP: Final = 4.0
_MEMORY: Final = 0.7
_ALIKE: Final = 0.05


class SliceSize:
    """Learns from each slice how much of the log can be applied in one commit.

    A slice of a backlog aims at ten seconds, or at the batch's interval where that is longer: rows of a
    backlog are not awaited one by one. But each slice costs a job and a commit for every table, however small it is, so it aims at
    no less than twice that. Near the log's end slices are what is there. Rows and bytes in memory stay within the batch's
    limits, about.

    Args:
        limits: The run's.
        interval: The target's `slice_interval`: slices of a backlog take about as long.

    Attributes:
        limit_bytes: Bytes at the source to ask for.
    """

    def __init__(self, limits: Limits, interval: float = 0.0) -> None:
        self._limits = limits
        self._seconds = max(_CATCHING_UP_SECONDS, limits.max_interval_seconds or 0, interval)
        self._cost = SliceCost()
        self.limit_bytes = _FIRST_BYTES

    def is_full(self, log_bytes: int) -> bool:
        """Whether a slice of so many bytes at the source was most of what was asked for, so that the log holds more."""
        return log_bytes * 2 > self.limit_bytes

    def learn(self, log_bytes: int, seconds: float, rows: int, nbytes: int) -> None:
        """A slice of `log_bytes` at the source became `rows` changes of `nbytes` in memory, and took `seconds`."""
        if not self.is_full(log_bytes):
            return
        self._cost.add(log_bytes, max(seconds, 0.01))
        fixed = self._cost.fixed
        wished = [(max(self._seconds, 2 * fixed) - fixed) / self._cost.per_byte]
        if rows:
            wished.append(log_bytes * self._limits.max_rows / rows)
        if nbytes:
            wished.append(log_bytes * self._limits.max_bytes / nbytes)
        within = min(max(min(wished), self.limit_bytes / _STEP), self.limit_bytes * _STEP)
        self.limit_bytes = max(_LEAST_BYTES, int(within))


class SliceCost:
    """The line through the seconds of the last slices over their bytes; each slice counts less with every one that follows.

    Attributes:
        fixed: Seconds of a slice without bytes.
        per_byte: Seconds each byte adds.
    """

    def __init__(self) -> None:
        self.fixed = 0.0
        self.per_byte = 0.0
        self._weight = self._bytes = self._seconds = self._variance = self._covariance = 0.0

    def add(self, log_bytes: int, seconds: float) -> None:
        """One more slice."""
        self._weight = self._weight * _MEMORY + 1
        gain = 1 / self._weight
        away, late = log_bytes - self._bytes, seconds - self._seconds
        self._bytes += gain * away
        self._seconds += gain * late
        self._variance = (1 - gain) * (self._variance + gain * away * away)
        self._covariance = (1 - gain) * (self._covariance + gain * away * late)
        mean = self._seconds / self._bytes
        if self._variance > (_ALIKE * self._bytes) ** 2:
            self.per_byte = min(max(self._covariance / self._variance, _ALIKE * mean), mean)
            self.fixed = self._seconds - self.per_byte * self._bytes
        else:  # slices of one size do not show what a smaller one would cost
            self.fixed = min(self.fixed, self._seconds * (1 - _ALIKE))
            self.per_byte = (self._seconds - self.fixed) / self._bytes
