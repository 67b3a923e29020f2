"""Runs maintenance beside a stream: in a thread of its own, or between applies where the step holds all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from replicator_runtime.engine.maintenance.table_locks import Held
from replicator_sdk import AppliesHeld

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from concurrent.futures import Future

    from replicator_runtime.engine.maintenance.maintenance import Maintenance, Step
    from replicator_sdk import TableId

_LOCK_SECONDS = 1.0
_URGENT_SECONDS = 60.0


class BesideStream:
    """The maintenance of one stream: one step at a time. Used by the engine's main thread.

    Args:
        maintenance: The run's.
        table_by_table: Whether applies of one table can be held alone; if not, all are held.
        run_alone: Runs work, the first argument, where no apply is under way; returns whether it does. It may refuse the
            work, which then comes again, but not where the second argument is true.
    """

    def __init__(
        self, maintenance: Maintenance, *, table_by_table: bool, run_alone: Callable[[Callable[[], None], bool], bool]
    ) -> None:
        self._maintenance = maintenance
        self._table_by_table = table_by_table
        self._run_alone = run_alone
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="maintenance")  # starts its thread when used
        self._future: Future[None] | None = None
        self._is_under_way = False

    def poll(self, tables: Collection[TableId], busy: Collection[TableId]) -> None:
        """Begin the next step that is due, if none is under way; called several times a second.

        Args:
            tables: The tables that take changes.
            busy: Those of them with changes that wait.

        Raises:
            FencedError: When a newer run has taken over a table that was maintained.
        """
        if self._future is not None and self._future.done():
            future, self._future = self._future, None
            future.result()
        if self._is_under_way or self._future is not None:
            return
        self._maintenance.times.save_when_due()
        step = self._maintenance.next_step(tables, busy)
        if step is not None:
            self._begin(step)

    def close(self) -> None:
        """Wait for the step that is under way, and store the times."""
        self._pool.shutdown(wait=True)
        self._maintenance.times.save()

    def _begin(self, step: Step) -> None:
        self._is_under_way = True
        if self._holds_all(step):
            if not self._run_alone(lambda: self._run(step), step.late_seconds > _URGENT_SECONDS):
                self._is_under_way = False
        else:
            self._future = self._pool.submit(self._run_locked, step)

    def _holds_all(self, step: Step) -> bool:
        return step.task.holds is AppliesHeld.ALL or not self._table_by_table

    def _run_locked(self, step: Step) -> None:
        """Do the step unless the table is being applied for longer; it comes again then."""
        try:
            what = Held.STRUCTURE if step.task.holds is AppliesHeld.NONE else Held.WHOLE
            with self._maintenance.locks.hold_soon(step.table, _LOCK_SECONDS, what) as is_held:
                if is_held:
                    self._maintenance.run_step(step)
        finally:
            self._is_under_way = False

    def _run(self, step: Step) -> None:
        try:
            self._maintenance.run_step(step)
        finally:
            self._is_under_way = False
