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

    A limit would have a server on which transactions of that length follow one another never copied. Instead the sessions
    that are waited for are shown as the source's error every half minute, and the block ends with the driver's error
    soon after the run is to stop.

    Args:
        connection: Where the block runs one command, without a timeout of its own.
        endpoint: For a session of its own, which asks what is waited for.
        context: Shows the error, and says whether the run is to stop.
    """
    created = threading.Event()
    watcher = threading.Thread(target=_watch, args=(connection, endpoint, context, created), name="slot-creation")
    watcher.start()
    try:
        yield
    finally:
        created.set()
        watcher.join()


def _watch(connection: PGconn, endpoint: Endpoint, context: DeltaSourceContext, created: threading.Event) -> None:
    is_shown, report_at = False, time.monotonic() + _REPORT_SECONDS
    while not created.wait(_PAUSE_SECONDS):
        if context.is_stopping:
            with contextlib.suppress(Exception):  # the session may have just ended
                connection.get_cancel().cancel()
        elif time.monotonic() >= report_at:
            report_at = time.monotonic() + _REPORT_SECONDS
            is_shown = _show(connection.backend_pid, endpoint, context) or is_shown
    if is_shown:
        context.set_ok()


def _show(pid: int, endpoint: Endpoint, context: DeltaSourceContext) -> bool:
    """Show what the session `pid` waits for; returns whether it waits for any transaction."""
    try:
        with endpoint.session() as session:
            row = session.execute("SELECT pg_catalog.pg_blocking_pids(%s)", [pid]).fetchone()
    except ReplicatorError:
        return False  # the session that creates the slot meets the same
    blocking = sorted(set(row[0])) if row else []
    if not blocking:
        return False
    error = _held_up(blocking)
    log.warning("slot.waits_for_transactions", error=str(error))
    context.set_error(error)
    return True


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
