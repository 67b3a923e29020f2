"""When the changes of one table are loaded: at once where its turn has come, else together with those that follow.

A table that waits for `loadInterval` delays no other table: its changes are held, and those of other tables, and later
ones of its own, are taken meanwhile. What was held is loaded as one batch.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from typing import Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_target_bigquery.batch.held_changes import HeldChanges
from replicator_target_bigquery.batch.table_merge import TableMerge
from replicator_target_bigquery.load.load_rate_limit import LoadRateLimit
from replicator_target_bigquery.tables.target_table import TargetTable

register("bigquery.changes.held")
HELD_BYTES: Final = 512 << 20
"""How many bytes of held changes are loaded at once, whatever `loadInterval` says."""


class TableLoads:
    """The loads of one table. `take` is called by one thread at a time, everything else by any.

    Args:
        table: The table.
        rate_limit: Says whether it may be loaded.
        pool: Loads what was held.
    """

    def __init__(self, table: TargetTable, rate_limit: LoadRateLimit, pool: Executor) -> None:
        self._table = table
        self._rate_limit = rate_limit
        self._pool = pool
        self._state = threading.Condition()
        self._held: HeldChanges | None = None
        self._is_loading = False
        self._failure: Exception | None = None
        self._settled: Position | None = None

    def take(self, changes: TableChanges) -> None:
        """Apply the changes, durable on return, or hold them until the table may be loaded again."""
        self._raise_failure()
        with self._state:
            held = self._held
            is_idle = held is None and not self._is_loading
        if is_idle and (changes.rows == 0 or self._is_turn):
            self._apply(changes)
            return
        if held is not None and not held.takes(changes):  # `settled` may begin its load meanwhile
            self.settle()
            self._raise_failure()
        self._hold(changes)

    def settled(self) -> Position | None:
        """How far everything is durable; begins a load when it is due.

        Raises:
            Exception: Why a load failed.
        """
        self._raise_failure()
        if self._is_turn:
            self.begin()
        return self._settled

    def settle(self) -> None:
        """Load everything that is held, without waiting for the table's turn; returns when it is done, or has failed."""
        while True:
            with self._state:
                self._state.wait_for(lambda: not self._is_loading)
                if self._failure is not None or self._held is None:
                    return
            self.begin()

    def discard(self) -> None:
        """Drop what is held; a load under way ends first."""
        with self._state:
            self._state.wait_for(lambda: not self._is_loading)
            held, self._held = self._held, None
        if held is not None:
            held.close()

    @property
    def _is_turn(self) -> bool:
        return self._rate_limit.seconds_left(self._table.table) <= 0

    def _hold(self, changes: TableChanges) -> None:
        with self._state:
            if self._held is not None and changes.identity.position <= self._held.position:
                return  # these are held already
            try:
                self._held = self._held or HeldChanges(changes)
                self._held.add(changes)
            except OSError as err:  # part of them may be in the file, and must never be loaded
                if self._held is not None:
                    self._held.close()
                self._held, self._failure = None, _no_space(changes)
                raise self._failure from err
            is_full = self._held.nbytes >= HELD_BYTES
        failpoint("bigquery.changes.held")
        if is_full:
            self.settle()
            self._raise_failure()

    def begin(self) -> None:
        """Start to load what is held, unless a load runs or nothing is held."""
        with self._state:
            if self._is_loading or self._failure is not None or self._held is None:
                return
            held, self._held, self._is_loading = self._held, None, True
        self._pool.submit(self._load, held).add_done_callback(lambda done: self._dropped(held, done))

    def _dropped(self, held: HeldChanges, done: Future[None]) -> None:
        """A load that the end of the run keeps from starting."""
        if done.cancelled():
            held.close()
            with self._state:
                self._is_loading = False
                self._state.notify_all()

    def _load(self, held: HeldChanges) -> None:
        failure: Exception | None = None
        try:
            self._apply(held.together())
        except Exception as err:  # noqa: BLE001 - raised by `settled`
            failure = err
        finally:
            held.close()
            with self._state:
                self._failure, self._is_loading = failure, False
                self._state.notify_all()

    def _apply(self, changes: TableChanges) -> None:
        with self._table.lock:
            TableMerge(self._table, lambda: self._rate_limit.begin(self._table.table)).apply(changes)
        self._settled = changes.identity.position

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _no_space(changes: TableChanges) -> RetryableError:
    return RetryableError(
        "changes that wait for `loadInterval` cannot be written to the temporary folder",
        code="RPL-6542",
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="free space in the folder that TMPDIR names, or lower `loadInterval`; retried by itself",
    )
