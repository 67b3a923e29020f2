"""Which tasks of which tables are due: found without asking for the time of every one of them each second."""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from replicator_runtime.engine.maintenance.due_times import DueTimes
    from replicator_sdk import MaintenanceTask, TableId

_LOOK_SECONDS: Final = 60.0

Pair = tuple["TableId", "MaintenanceTask"]


class Agenda:
    """The tasks that are due, and the others in the order of their times. Safe from several threads.

    All times are looked at once a minute, when the number of tables has changed, and when the clock went back. In between only
    those are that become due, or that `changed` names.

    Args:
        times: When each is due.
        tasks: The target's.
    """

    def __init__(self, times: DueTimes, tasks: Collection[MaintenanceTask]) -> None:
        self._times = times
        self._tasks = tasks
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._tables = 0
        self._late: dict[Pair, float] = {}
        self._coming: list[tuple[float, int, Pair]] = []
        self._newest: dict[Pair, int] = {}
        self._rank = itertools.count()

    def late(self, tables: Collection[TableId], now: float) -> list[tuple[float, Pair]]:
        """The tasks of `tables` that are due at `now`, each with the time since when; times in seconds since 1970."""
        with self._lock:
            if len(tables) != self._tables or not self._looked_at <= now < self._looked_at + _LOOK_SECONDS:
                self._look(tables, now)
            while self._coming and self._coming[0][0] <= now:
                at, rank, pair = heapq.heappop(self._coming)
                if self._newest[pair] == rank:  # otherwise it has another time by now
                    self._late[pair] = at
            return [(at, pair) for pair, at in self._late.items() if pair[0] in tables]

    def changed(self, table: TableId, task: MaintenanceTask) -> None:
        """The task has been done, or has failed: it is due at another time."""
        pair = (table, task)
        with self._lock:
            self._late.pop(pair, None)
            self._put(pair)

    def forget(self) -> None:
        """Look at all times with the next call."""
        with self._lock:
            self._looked_at = float("-inf")

    def _look(self, tables: Collection[TableId], now: float) -> None:
        self._looked_at, self._tables = now, len(tables)
        self._late, self._coming, self._newest = {}, [], {}
        for table in tables:
            for task in self._tasks:
                self._put((table, task))

    def _put(self, pair: Pair) -> None:
        self._newest[pair] = rank = next(self._rank)
        heapq.heappush(self._coming, (self._times.due_at(*pair), rank, pair))
