"""Which older offsets stay: all of the newest, then one a minute up to an age."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

_AT_ONCE = 64  # at most so many are given up in one save, so that a save costs the same after a long pause


@dataclass(frozen=True, slots=True)
class Retention:
    """How many older offsets are kept to rewind to.

    Attributes:
        count: So many newest offsets always stay, whatever their age.
        age: Older ones stay up to this age, thinned.
        spacing: Of those at most one for each span of this length, so that a save every second does not make
            600,000 files in a week. Zero keeps all.
    """

    count: int = 100
    age: timedelta = timedelta(days=7)
    spacing: timedelta = timedelta(minutes=1)


class RetainedFiles:
    """The numbers of the kept files in memory, so that a save neither lists nor reads the folder.

    Not thread-safe; owned by one `OffsetStore`.
    """

    def __init__(self, retention: Retention, numbers: Iterable[int]) -> None:
        self._count = max(1, retention.count)
        self._age = retention.age // timedelta(microseconds=1)
        self._spacing = retention.spacing // timedelta(microseconds=1)
        self._older: deque[int] = deque(numbers)
        self._recent: deque[int] = deque()
        while self._older and len(self._recent) < self._count:
            self._recent.appendleft(self._older.pop())

    @property
    def newest(self) -> int:
        """The highest number, -1 when there is none."""
        return self._recent[-1] if self._recent else -1

    def add(self, number: int) -> None:
        """Put the file just written in front."""
        self._recent.append(number)

    def give_up(self, now: int) -> list[int]:
        """The numbers to delete now, which the retained forgets; the newest `count` are never among them."""
        gone: list[int] = []
        while len(self._recent) > self._count:
            number = self._recent.popleft()
            crowded = self._older and self._spacing and number // self._spacing == self._older[-1] // self._spacing
            (gone if crowded else self._older).append(number)
        while self._older and len(gone) < _AT_ONCE and now - self._older[0] > self._age:
            gone.append(self._older.popleft())
        return gone
