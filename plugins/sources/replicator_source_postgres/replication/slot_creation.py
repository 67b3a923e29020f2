"""Waits while a slot is created: the server first waits for the end of every transaction that has written, in any database."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_source_postgres.connection import Endpoint

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

log = structlog.get_logger(__name__)

_REPORT_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_SHOWN = 5


@contextlib.contextmanager
def waiting_for_transactions(connection: PGconn, endpoint: Endpoint, context: DeltaSourceContext) -> Iterator[None]:
    """The block creates a slot on `connection`, however long that takes.

    Without a limit, a server on which transactions of that length follow one another is copied, too. The sessions
    that are waited for are shown as the source's error every half minute, and the block ends with the driver's error
    soon after the run is to stop.

    Args:
        connection: Where the block runs one command, without a timeout of its own.
        endpoint: For a session of its own, which asks what is waited for.
        context: Shows the error, and says whether the run is to stop and how long it waits.

    Raises:
        RetryableError: RPL-3112 when it has waited for such transactions for longer than the context allows.
    """
    watch = _Watch(connection, endpoint, context)
    watcher = threading.Thread(target=watch.run, name="slot-creation")
    watcher.start()
    try:
        yield
    except Exception as error:
        watch.end(watcher)
        if watch.gave_up is not None:
            raise watch.gave_up from error
        raise
    finally:
        watch.end(watcher)


class _Watch:
    """Watches one creation in a thread of its own.

    Attributes:
        gave_up: What was waited for when it was cancelled for the time it took.
    """

    def __init__(self, connection: PGconn, endpoint: Endpoint, context: DeltaSourceContext) -> None:
        self.gave_up: RetryableError | None = None
        self._connection, self._endpoint, self._context = connection, endpoint, context
        self._created = threading.Event()
        self._gives_up_at = time.monotonic() + context.longest_wait_seconds

    def end(self, watcher: threading.Thread) -> None:
        """The creation has ended; returns when `watcher` has."""
        self._created.set()
        watcher.join()

    def run(self) -> None:
        """Until `end`."""
        is_shown, look_at = False, self._next_look()
        while not self._created.wait(_PAUSE_SECONDS):
            if self._context.is_stopping or self.gave_up is not None:
                self._cancel()
            elif time.monotonic() >= look_at:
                is_late, error = time.monotonic() >= self._gives_up_at, self._held_up()
                is_shown, look_at = error is not None or is_shown, self._next_look()
                self.gave_up = error if is_late else None
        if is_shown:
            self._context.set_ok()

    def _next_look(self) -> float:
        now = time.monotonic()
        at = now + _REPORT_SECONDS
        return min(at, self._gives_up_at) if now < self._gives_up_at else at

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):  # the session may have just ended
            self._connection.get_cancel().cancel()

    def _held_up(self) -> RetryableError | None:
        """Show what the creation waits for; None when it waits for no transaction."""
        try:
            with self._endpoint.session() as session:
                pid = self._connection.backend_pid
                row = session.execute("SELECT pg_catalog.pg_blocking_pids(%s)", [pid]).fetchone()
        except ReplicatorError:
            return None  # the session that creates the slot meets the same
        blocking = sorted(set(row[0])) if row else []
        if not blocking:
            return None
        error = _held_up(blocking)
        log.warning("slot.waits_for_transactions", error=str(error))
        self._context.set_error(error)
        return error


def _held_up(pids: list[int]) -> RetryableError:
    """The error of a slot that waits; the server reports 0 as the session of a prepared transaction."""
    sessions = [str(pid) for pid in pids if pid]
    kinds = ["a prepared transaction"] if 0 in pids else []
    if sessions:
        more = f" and {len(sessions) - _SHOWN} more" if len(sessions) > _SHOWN else ""
        kinds.append(f"the transaction of server process {', '.join(sessions[:_SHOWN])}{more}")
    return RetryableError(
        f"reading begins when the transactions that have written by now have ended; the server waits for {' and '.join(kinds)}",
        code="RPL-3112",
        hint="nothing to do if they end; pg_stat_activity and pg_prepared_xacts show since when they are open: end a forgotten"
        " one with pg_terminate_backend(…) or ROLLBACK PREPARED",
    )
