"""How fast partitions have grown in the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from replicator_source_kafka.partition_range import TopicPartition

_WINDOW_SECONDS: Final = 600.0
_EVERY_SECONDS: Final = 30.0


class Growth:
    """Remembers where partitions ended, twice a minute for ten minutes. Used by one thread."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, Mapping[TopicPartition, int]]] = deque()

    def note(self, ends: Mapping[TopicPartition, int]) -> None:
        """The partitions end there now."""
        now = time.monotonic()
        while self._ends and now - self._ends[0][0] > _WINDOW_SECONDS:
            self._ends.popleft()
        if not self._ends or now - self._ends[-1][0] >= _EVERY_SECONDS:
            self._ends.append((now, ends))

    def records_per_second(self, tp: TopicPartition, end: int) -> float:
        """How many offsets a second a partition, which ends there now, has got since the first end that is remembered; 0 when none is."""
        if not self._ends:
            return 0.0
        since, before = self._ends[0]
        seconds = time.monotonic() - since
        return max(0, end - before.get(tp, end)) / seconds if seconds > 0 else 0.0
