"""What both kinds of stream do from time to time: look at failing tables, store last positions, and maintain the target."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from replicator_runtime.engine.apply.active_tables import ActiveTables
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_sdk import TableId

_LOOK_SECONDS = 0.5


class PeriodicWork:
    """Used by the engine's main thread.

    Args:
        lifecycle: Of all tables.
        tables: The tables that take changes; they are maintained.
        maintain: Begins maintenance that is due; its arguments are the tables, and those with changes that wait.
    """

    def __init__(
        self,
        lifecycle: TableLifecycle,
        tables: ActiveTables,
        maintain: Callable[[Collection[TableId], Collection[TableId]], None],
    ) -> None:
        self._lifecycle = lifecycle
        self._tables = tables
        self._maintain = maintain
        self._looked_at = -math.inf  # an attempt may be shorter than the time between two looks

    def run(self, busy: Collection[TableId] = ()) -> None:
        """Do what is due; called several times a second, or between two slices.

        Args:
            busy: The tables with changes that wait.

        Raises:
            Rejoin: As `ActiveTables.drop_full_lanes`.
        """
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._lifecycle.release_failing(self._tables.watermarks)
            self._tables.let_failing_go()
            self._tables.drop_full_lanes()
        self._lifecycle.positions.save_when_due()
        self._lifecycle.run.totals.save_soon()
        self._maintain([table for table in self._tables.watermarks if table not in self._tables.lanes], busy)
