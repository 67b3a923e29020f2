"""Counts of fresh and broken minutes by day: bounded by the days that count, however long a replicator works."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replicator_runtime.freshness.objective import MINUTES_A_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.freshness.objective import Objective


def minute_of(seconds: float) -> int:
    """The minute since 1970 that a moment is in."""
    return math.floor(seconds / 60.0)


def first_broken(fresh_until: float, minutes: float) -> int:
    """The first minute that begins when a table that is complete as of `fresh_until` is older than `minutes`."""
    return math.floor((fresh_until + minutes * 60.0) / 60.0) + 1


@dataclass(slots=True)
class Minutes:
    """The minutes of one table, or of the whole pipeline.

    Attributes:
        objective: By which they are counted; minutes counted before an edit of it stay as they were counted.
        days: Fresh and broken minutes by day since 1970.
        fresh_until: As of when the table is known to be complete, in seconds since 1970; unused of a pipeline.
    """

    objective: Objective
    days: dict[int, tuple[int, int]] = field(default_factory=dict)
    fresh_until: float = 0.0

    def count(self, first: int, last: int, broken_from: int) -> None:
        """Count the minutes `first` to `last`, of which those from `broken_from` on are broken. Minutes outside the window are not."""
        first = max(first, (minute_day(last) - self.objective.days + 1) * MINUTES_A_DAY)
        for day, begins, ends in _by_day(first, last):
            fresh, broken = self.days.get(day, (0, 0))
            new_fresh = max(0, min(ends, broken_from - 1) - begins + 1)
            self.days[day] = fresh + new_fresh, broken + (ends - begins + 1) - new_fresh
        self._forget(minute_day(last))

    def _forget(self, today: int) -> None:
        for day in [day for day in self.days if day <= today - self.objective.days]:
            del self.days[day]

    def totals(self, today: int) -> tuple[int, int]:
        """Fresh and broken minutes of the days that count."""
        counted = [counts for day, counts in self.days.items() if day > today - self.objective.days]
        return sum(fresh for fresh, _ in counted), sum(broken for _, broken in counted)


def minute_day(minute: int) -> int:
    """The day since 1970, in UTC, that a minute is in."""
    return minute // MINUTES_A_DAY


def _by_day(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Each day of the minutes `first` to `last`, with its first and last one of them."""
    for day in range(minute_day(first), minute_day(last) + 1) if first <= last else ():
        begins = day * MINUTES_A_DAY
        yield day, max(first, begins), min(last, begins + MINUTES_A_DAY - 1)
