"""When tables are committed: those that have taken changes together, once in an interval, and whenever the runtime asks for it."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.distributed.executors import run_on_threads
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from replicator_sdk.context import DeltaTargetContext
    from replicator_target_iceberg.coordinator.table_commits import TableCommits

log = structlog.get_logger(__name__)

register("iceberg.round.begun", "iceberg.round.ended")


class Rounds:
    """Commits tables from a thread of its own, which the first changes start. Safe from several threads.

    Args:
        interval: Seconds between two rounds of the clock, and before the first, at least.
        timeout: For how many seconds one of them waits for files that are being written when it begins.
        tables: All tables; called in any thread.
        context: Counts the rounds that did not wait to the end.
    """

    def __init__(
        self,
        interval: float,
        timeout: float,
        tables: Callable[[], Iterable[TableCommits]],
        context: DeltaTargetContext,
    ) -> None:
        self._interval, self._timeout = interval, timeout
        self._tables, self._context = tables, context
        self._clock = threading.Condition()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self._began = time.monotonic()
        self._something_waits = self._is_stopping = False

    def taken(self) -> None:
        """A table has taken changes: a round is due when the interval since the last one is over."""
        with self._clock:
            self._something_waits = True
            if self._thread is None and not self._is_stopping:
                self._thread = threading.Thread(target=self._run, name="iceberg-coordinator", daemon=True)
                self._thread.start()
            self._clock.notify_all()

    def settle(self, tables: Iterable[TableCommits]) -> None:
        """Commit what these tables have taken; returns when no commit is under way."""
        with self._turn:
            self._commit(tables)

    def stop(self) -> None:
        """End the thread, after the commits under way; may be called twice."""
        with self._clock:
            self._is_stopping = True
            self._clock.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._due():
            with self._turn:
                self._round()

    def _due(self) -> bool:
        """Wait until a round is due; whether one is, and not the end."""
        with self._clock:
            self._clock.wait_for(lambda: self._something_waits or self._is_stopping)
            left = self._began + self._interval - time.monotonic()
            self._clock.wait_for(lambda: self._is_stopping, max(0.0, left))
            self._something_waits, self._began = False, time.monotonic()
            return not self._is_stopping

    def _round(self) -> None:
        """Have the tables whose files are being written hand them over, then commit what all tables have."""
        tables = list(self._tables())
        until = time.monotonic() + self._timeout
        late = [
            one.name for one in tables if not one.wait_for_batch(lambda: self._is_stopping or time.monotonic() >= until)
        ]
        if self._is_stopping:
            return
        if late:
            self._context.metrics.count("iceberg.commits_incomplete", 1)
            why = "their files were not written within commitTimeoutMs; they are in the next commit"
            log.warning("iceberg.commit_incomplete", tables=late, why=why)
        self._commit(tables)

    def _commit(self, tables: Iterable[TableCommits]) -> None:
        """Commit those that have taken changes, several at once, each by itself: one that fails keeps no other from its commit."""
        waiting = [one for one in tables if one.waits]
        if not waiting:
            return
        commit_id = uuid.uuid4().hex
        failpoint("iceberg.round.begun")
        for _ in run_on_threads(lambda one: one.commit(commit_id), waiting):
            pass
        failpoint("iceberg.round.ended")
