"""What both kinds of stream do from time to time: look at failing tables, store last positions, and maintain the target."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.apply.maintenance import Maintenance
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle

_LOOK_SECONDS = 0.5


class PeriodicWork:
    """Used by the engine's main thread; the only place that starts maintenance.

    Args:
        lifecycle: Of all tables.
        tables: The tables that take changes; they are maintained.
        maintenance: The run's.
        run_alone: Runs what it gets where no apply meets it, or drops it while one is under way: it comes again.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        tables: ActiveTables,
        maintenance: Maintenance,
        run_alone: Callable[[Callable[[], None]], None],
    ) -> None:
        self._lifecycle = lifecycle
        self._tables = tables
        self._maintenance = maintenance
        self._run_alone = run_alone
        self._looked_at = time.monotonic()

    def run(self) -> None:
        """Do what is due; called several times a second, or between two slices."""
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._lifecycle.release_failing(self._tables.watermarks)
        self._lifecycle.positions.save_when_due()
        if self._maintenance.is_due:
            tables = sorted(self._tables.watermarks)
            self._run_alone(lambda: self._maintenance.run(tables))
