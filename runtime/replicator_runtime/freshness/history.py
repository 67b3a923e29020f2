"""What is known of each table's freshness, minute by minute: counted, stored, and read again by later runs and commands.

Two state values hold it, so that what is written each minute stays small: the counts of the present day with the moment as of which
each table is complete, and, once a day, the counts of the days before.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.config.sections.slo import SloConfig
from replicator_runtime.freshness.minutes import Minutes, first_broken, minute_day, minute_of
from replicator_runtime.freshness.objective import MINUTES_A_DAY, Objective
from replicator_runtime.stored_forms import FRESHNESS, FRESHNESS_DAYS, head, read_or_set_aside
from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_state import StateStore

_NEVER: Final = 1 << 62
_DEFAULT: Final = Objective.of(SloConfig())


@dataclass(frozen=True, slots=True)
class Measured:
    """One table at the moment of a measurement.

    Attributes:
        objective: Its objective.
        lag_seconds: Its lag; None when unknown.
        replicates: Whether it is REPLICATING; a table counts from when it first is.
    """

    objective: Objective
    lag_seconds: float | None
    replicates: bool


@dataclass(slots=True)
class History:
    """The minutes of a pipeline and of its tables. Used by one thread at a time.

    A minute without a measurement, in which no run was active say, is counted by what was known before: the table is as old then as the
    time since the moment as of which it was complete last.

    Attributes:
        whole: The pipeline's; None until a table counts.
        tables: Each table's that has an objective and has been REPLICATING.
        until: The last minute that is counted, since 1970; None when none is.
    """

    whole: Minutes | None = None
    tables: dict[TableId, Minutes] = field(default_factory=dict)
    until: int | None = None

    def measure(self, now: float, of_all: Objective, measured: Mapping[TableId, Measured]) -> None:
        """Count the minutes up to the present one, each once.

        Args:
            now: In seconds since 1970.
            of_all: The pipeline's objective.
            measured: The tables that have an objective.
        """
        minute = minute_of(now)
        if self.until is not None and self.until - minute > MINUTES_A_DAY:
            self._turn_back(now)
        self.count_until(minute - 1)
        for table, one in measured.items():
            self._note(now, table, one)
        if self.whole is None and self.tables:
            self.whole = Minutes(of_all)
        if self.whole is not None:
            self.whole.objective = of_all
        if self.until is None:
            self.until = minute - 1 if self.tables else None
        self.count_until(minute, now)

    def _note(self, now: float, table: TableId, one: Measured) -> None:
        known = self.tables.get(table)
        if known is None:
            if not one.replicates:
                return
            known = self.tables[table] = Minutes(one.objective, fresh_until=now)
        known.objective = one.objective
        if one.lag_seconds is not None:
            complete = now - one.lag_seconds
            # A table that is copied again, or waits, may have changed nothing since: what it was complete as of still holds.
            known.fresh_until = complete if one.replicates else max(complete, known.fresh_until)

    def _turn_back(self, now: float) -> None:
        """The clock was ahead by more than a day and is right again: forget what it counted, with the present day; else nothing would count until then."""
        minute = minute_of(now)
        for one in (*self.tables.values(), *(() if self.whole is None else (self.whole,))):
            one.days = {day: counts for day, counts in one.days.items() if day < minute_day(minute)}
            one.fresh_until = min(one.fresh_until, now)
        self.until = minute - 1

    def count_until(self, last: int, now: float | None = None) -> None:
        """Count the minutes that are not counted yet, up to `last`.

        Args:
            last: In minutes since 1970.
            now: The moment of `last` at which the tables were looked at; its beginning when left out.
        """
        if self.until is None or last <= self.until:
            return
        first, whole_broken = self.until + 1, _NEVER
        for one in self.tables.values():
            broken = first_broken(one.fresh_until, one.objective.minutes)
            if now is not None and now - one.fresh_until > one.objective.minutes * 60.0:
                broken = min(broken, last)
            one.count(first, last, broken)
            whole_broken = min(whole_broken, broken)
        if self.whole is not None and self.tables:
            self.whole.count(first, last, whole_broken)
        self.until = last

    def forget_others(self, tables: Mapping[TableId, Measured]) -> None:
        """Forget the tables that are replicated no more, or have no objective any more."""
        for table in [table for table in self.tables if table not in tables]:
            del self.tables[table]

    def rename(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once."""
        self.tables.update({names[table]: self.tables.pop(table) for table in names if table in self.tables})

    def as_of(self, now: float) -> History:
        """A copy in which the minutes up to `now` are counted."""
        found = copy.deepcopy(self)
        found.count_until(minute_of(now))
        return found


def load(store: StateStore) -> History:
    """What is stored; an empty history where nothing is. A damaged value is set aside: without that of the present day, the days before count.

    Args:
        store: The runtime's own state.
    """
    earlier = read_or_set_aside(store, FRESHNESS_DAYS, _parsed_days) or _Days([], {})
    found = read_or_set_aside(store, FRESHNESS, lambda stored: _parsed_today(stored, earlier))
    return found or _of_days(earlier)


@dataclass(frozen=True, slots=True)
class _Days:
    """Counts of the days before the present one: day, fresh and broken minutes."""

    whole: list[list[int]]
    tables: dict[TableId, list[list[int]]]


def _parsed_days(stored: Any) -> _Days:
    return _Days(stored["whole"], {TableId(*place): counts for place, counts in stored["tables"]})


def _parsed_today(stored: Any, earlier: _Days) -> History:
    history = History(until=stored["until"])
    if stored["whole"] is not None:
        history.whole = _minutes(stored["whole"], earlier.whole)
    for place, one in stored["tables"]:
        table = TableId(*place)
        history.tables[table] = _minutes(one, earlier.tables.get(table, []))
    return history


def _of_days(earlier: _Days) -> History:
    """The days before alone; objectives and how fresh tables are follow with the next measurement."""
    history, now = History(), time.time()
    if earlier.tables:
        history.whole = Minutes(_DEFAULT, _counted(earlier.whole))
        history.tables = {t: Minutes(_DEFAULT, _counted(days), now) for t, days in earlier.tables.items()}
    return history


def save(history: History, store: StateStore, *, with_days: bool) -> None:
    """Store it, durable when this returns; the days before the present one only when that is asked for.

    Raises:
        ReplicatorError: As the store fails.
    """
    today = minute_day(history.until or 0)
    tables = sorted(history.tables.items())
    if with_days:
        whole = [] if history.whole is None else _before(history.whole, today)
        counts = [(_place(table), _before(one, today)) for table, one in tables]
        _put(store, FRESHNESS_DAYS, {"whole": whole, "tables": counts})
    content = {
        "until": history.until,
        "whole": None if history.whole is None else _today(history.whole, today),
        "tables": [(_place(table), _today(one, today)) for table, one in tables],
    }
    _put(store, FRESHNESS, content)


def _put(store: StateStore, key: str, content: Mapping[str, Any]) -> None:
    text = json.dumps({**head(key), **content}, ensure_ascii=False)
    store.put(key, text.encode())


def _place(table: TableId) -> tuple[str, str, str]:
    return table.database, table.table, table.schema


def _today(one: Minutes, today: int) -> tuple[Any, ...]:
    objective = one.objective
    shown = objective.percent, objective.minutes, objective.days
    return *shown, round(one.fresh_until, 1), today, *one.days.get(today, (0, 0))


def _before(one: Minutes, today: int) -> list[tuple[int, int, int]]:
    return [(day, *counts) for day, counts in sorted(one.days.items()) if day < today]


def _counted(days: list[list[int]]) -> dict[int, tuple[int, int]]:
    return {day: (fresh, broken) for day, fresh, broken in days}


def _minutes(stored: list[Any], before: list[list[int]]) -> Minutes:
    """The value of today counts where both have a day: it was stored later."""
    percent, minutes, days, fresh_until, today, fresh, broken = stored
    counted = _counted(before)
    counted[today] = fresh, broken
    return Minutes(Objective(percent, minutes, days), counted, fresh_until)
