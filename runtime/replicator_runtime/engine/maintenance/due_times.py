"""Stores when each table had each task of maintenance last, so that due times survive restarts.

Runs may be shorter than any interval. What is stored is at most half a minute old; a task that a crash makes forgotten is done again.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.retry_budget import growing_wait
from replicator_runtime.stored_forms import MAINTENANCE, head, parsed
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from replicator_sdk import MaintenanceTask
    from replicator_state import StateStore

log = structlog.get_logger()
_EVERY_SECONDS = 30.0


@dataclass(slots=True)
class TaskTimes:
    """What is known of one task of one table; times in seconds since 1970.

    Attributes:
        seen_at: When the task was first wanted.
        done_at: When it was done last; None when it never was.
        failed_at: When it failed last; None when it has been done since.
        failures: How often it has failed since it was done.
        error: Why it failed last; empty when it has been done since.
    """

    seen_at: float
    done_at: float | None = None
    failed_at: float | None = None
    failures: int = 0
    error: str = ""

    def follow_clock(self, now: float) -> bool:
        """Take times after `now`, when the clock went back, for `now`; returns whether there was one.

        Otherwise the task would never be due until the clock is there again.
        """
        times = (self.seen_at, self.done_at, self.failed_at)
        if all(at is None or at <= now for at in times):
            return False
        self.seen_at = min(self.seen_at, now)
        self.done_at = None if self.done_at is None else min(self.done_at, now)
        self.failed_at = None if self.failed_at is None else min(self.failed_at, now)
        return True

    def due_at(self, interval: float, share: float) -> float:
        """When it is due next: at the latest one interval from now, where no time of it is after now.

        Args:
            interval: Seconds between two times.
            share: At which part of the first interval a table has it first, 0 to 1.
        """
        if self.failed_at is not None:
            return self.failed_at + growing_wait(self.failures, interval)
        if self.done_at is not None:
            return self.done_at + interval
        return self.seen_at + interval * share


class DueTimes:
    """The times of all tasks of all tables, under one state key. Safe from any thread."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._times: dict[tuple[TableId, str], TaskTimes] | None = None
        self._changed = False
        self._saved_at = time.monotonic()

    def due_at(self, table: TableId, task: MaintenanceTask) -> float:
        """When `table` is due for `task`, in seconds since 1970.

        A table that is new here has it first within one interval, at a time that depends on its name: many tables are not
        due all together.
        """
        now = time.time()
        with self._lock:
            times = self._loaded()
            if (table, task.name) not in times:
                times[table, task.name] = TaskTimes(now)
                self._changed = True
            self._changed |= times[table, task.name].follow_clock(now)
            return times[table, task.name].due_at(task.interval_seconds, _share(table, task.name))

    def done(self, table: TableId, task: str) -> TaskTimes:
        """The table has had the task; returns what is known of it now."""
        with self._lock:
            now = time.time()
            times = TaskTimes(self._loaded().get((table, task), TaskTimes(now)).seen_at, done_at=now)
            return self._set(table, task, times)

    def failed(self, table: TableId, task: str, error: str) -> TaskTimes:
        """The task failed; it is due again after a delay that doubles each time. Returns what is known of it now."""
        with self._lock:
            now = time.time()
            before = self._loaded().get((table, task), TaskTimes(now))
            times = TaskTimes(before.seen_at, before.done_at, now, before.failures + 1, error)
            return self._set(table, task, times)

    def known(self) -> Mapping[tuple[TableId, str], TaskTimes]:
        """A copy of what is known."""
        with self._lock:
            return dict(self._loaded())

    def forget_others(self, tables: Container[TableId]) -> None:
        """Drop what is kept of tables that are not in `tables`."""
        with self._lock:
            gone = [key for key in self._loaded() if key[0] not in tables]
            for key in gone:
                del self._loaded()[key]
            self._changed = self._changed or bool(gone)

    def save_when_due(self) -> None:
        """Store what was noted, at most every half minute."""
        if time.monotonic() - self._saved_at >= _EVERY_SECONDS:
            self.save()

    def save(self) -> None:
        """Store what was noted; a failure costs only that maintenance may come again, so it ends no run."""
        with self._lock:
            self._saved_at = time.monotonic()
            if not self._changed:
                return
            try:
                entries = [{"table": t.to_json(), "task": name, **asdict(x)} for (t, name), x in self._loaded().items()]
                self._store.put(MAINTENANCE, json.dumps({**head(MAINTENANCE), "tasks": entries}).encode())
                self._changed = False
            except Exception as error:  # noqa: BLE001 - the offset's own save says what is wrong with the store
                log.warning("maintenance.times_not_saved", error=str(error))

    def _set(self, table: TableId, task: str, times: TaskTimes) -> TaskTimes:
        self._loaded()[table, task] = times
        self._changed = True
        return times

    def _loaded(self) -> dict[tuple[TableId, str], TaskTimes]:
        if self._times is None:
            content = self._stored()
            self._times = {}
            for entry in parsed(MAINTENANCE, content)["tasks"] if content else ():
                table, task = TableId.from_json(entry.pop("table")), entry.pop("task")
                self._times[table, task] = TaskTimes(**entry)
        return self._times

    def _stored(self) -> bytes | None:
        """What was stored; None as well when it is damaged: then every table counts as new."""
        try:
            return self._store.get(MAINTENANCE)
        except NeedsUserError as error:
            log.warning("maintenance.times_not_read", error=str(error))
            return None


def _share(table: TableId, task: str) -> float:
    """From 0 to 1, spread evenly over tables and tasks, and the same in every process."""
    return zlib.crc32(f"{table} {task}".encode()) / 2**32
