"""What the counted minutes come to: the ratio, the error budget that is left, and which tables are worst."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replicator_runtime.freshness.history import History
    from replicator_runtime.freshness.minutes import Minutes
    from replicator_runtime.freshness.objective import Objective
    from replicator_sdk import TableId


@dataclass(frozen=True, slots=True)
class Figures:
    """Those of one table, or of the whole pipeline.

    Attributes:
        table: The table; None for the pipeline, of which a minute is fresh when each table was.
        objective: Its objective; of a pipeline without one of its own, the default one.
        fresh: Fresh minutes of the days that count.
        broken: The others that were counted.
        since: The first day that was counted.
        fresh_until: As of when the table is known to be complete, in seconds since 1970; None for the pipeline.
    """

    table: TableId | None
    objective: Objective
    fresh: int
    broken: int
    since: date | None
    fresh_until: float | None

    @property
    def ratio(self) -> float:
        """The part that was fresh, 0 to 1; 1 while nothing is counted."""
        return self.fresh / counted if (counted := self.fresh + self.broken) else 1.0

    @property
    def budget_left(self) -> float:
        """How many minutes may yet be broken; negative when the objective is broken."""
        return self.objective.budget_minutes - self.broken

    @property
    def is_met(self) -> bool:
        """Whether no more minutes were broken than the objective allows in its days."""
        return self.budget_left >= 0

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator slo NAME --json`."""
        place = {} if self.table is None else self.table.to_json()
        fresh_until = None if self.fresh_until is None else datetime.fromtimestamp(self.fresh_until, UTC)
        return {
            **place,
            "percent": self.objective.percent,
            "minutes": self.objective.minutes,
            "window": f"{self.objective.days}d",
            "ratio": round(self.ratio, 6),
            "freshMinutes": self.fresh,
            "brokenMinutes": self.broken,
            "budgetMinutes": round(self.objective.budget_minutes, 1),
            "budgetMinutesLeft": round(self.budget_left, 1),
            "isMet": self.is_met,
            "since": None if self.since is None else self.since.isoformat(),
            "completeAsOf": None if fresh_until is None else fresh_until.isoformat(timespec="seconds"),
        }


def figures_of(history: History, today: int) -> tuple[Figures, ...]:
    """The pipeline's figures, and then each table's, those with the least budget left first; empty before anything counts."""
    if history.whole is None:
        return ()
    tables = [_figures(table, one, today) for table, one in history.tables.items()]
    tables.sort(key=lambda one: (one.budget_left, one.ratio, str(one.table)))
    return _figures(None, history.whole, today), *tables


def _figures(table: TableId | None, one: Minutes, today: int) -> Figures:
    fresh, broken = one.totals(today)
    first = min((day for day, counts in one.days.items() if any(counts)), default=None)
    since = None if first is None else date(1970, 1, 1) + timedelta(days=first)
    return Figures(table, one.objective, fresh, broken, since, None if table is None else one.fresh_until)
