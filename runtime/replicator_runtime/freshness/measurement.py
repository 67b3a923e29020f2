"""Measures the freshness of a run's tables from minute to minute, and answers what its objectives come to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from replicator_runtime.freshness.figures import Figures, figures_of
from replicator_runtime.freshness.history import History, Measured, load, save
from replicator_runtime.freshness.minutes import minute_day, minute_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.freshness.objective import Objectives
    from replicator_sdk import TableId
    from replicator_state import StateStore


class Measurement:
    """One per run. Safe from any thread; `figures` never waits for the store.

    Args:
        objectives: The pipeline's.
        store: The runtime's own state.

    Raises:
        ReplicatorError: As the store fails.
    """

    def __init__(self, objectives: Objectives, store: StateStore) -> None:
        self.objectives = objectives
        self._store = store
        self._lock = threading.Lock()
        self._history = load(store)
        self._stored_day = -1
        self._figures: tuple[Figures, ...] = ()

    @property
    def figures(self) -> tuple[Figures, ...]:
        """The pipeline's figures and those of each table with an objective, as of the last measurement; empty before one counts."""
        return self._figures

    def measure(self, now: float, lags: Mapping[TableId, tuple[bool, float | None]], *, is_whole: bool) -> None:
        """Count the minutes up to the present one, and store the counts, durable when this returns.

        Args:
            now: In seconds since 1970.
            lags: For each table whether it is REPLICATING, and its lag, None when unknown.
            is_whole: Whether these are all tables that are replicated: those that are not among them are forgotten.

        Raises:
            ReplicatorError: As the store fails; what was counted is stored with the next measurement.
        """
        of_table = self.objectives.of_table
        wanted = {table: (objective, *lag) for table, lag in lags.items() if (objective := of_table(table)) is not None}
        measured = {t: Measured(objective, lag, replicates) for t, (objective, replicates, lag) in wanted.items()}
        with self._lock:
            if is_whole:
                self._history.forget_others(measured)
            self._history.measure(now, self.objectives.of_all, measured)
            self._figures = figures_of(self._history, minute_day(minute_of(now)))
            self._save()

    def _save(self) -> None:
        if self._history.until is None:
            return
        today = minute_day(self._history.until)
        save(self._history, self._store, with_days=today != self._stored_day)
        self._stored_day = today

    def rename(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once; their minutes go on under the new ones."""
        with self._lock:
            self._history.rename(names)


def forget(store: StateStore) -> None:
    """No objective is set any more: what was counted is not shown as if minutes went on being counted."""
    if load(store) != History():
        save(History(), store, with_days=True)
