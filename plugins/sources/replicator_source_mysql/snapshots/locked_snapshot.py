"""A session that sees a table without a key at one moment, and the end of the binlog at that moment."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import structlog

from replicator_sdk.errors import ReplicatorError
from replicator_sdk.offset import Offset
from replicator_source_mysql.connect.connection import Endpoint, driver, execute
from replicator_source_mysql.connect.packets import Packets
from replicator_source_mysql.snapshots.chunk_plan import qualified
from replicator_source_mysql.snapshots.chunk_reader import PlannedTable, begin_read
from replicator_source_mysql.snapshots.result_set import select

if TYPE_CHECKING:
    import pymysql

log = structlog.get_logger(__name__)

_LOCK_SECONDS = 5
"""While the lock waits for open transactions, other writers wait for the lock: so not for long."""
_ENGINE = """
SELECT t.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s
"""


class LockedSnapshot:
    """Holds a transaction that sees one table exactly as of `position`, until closed.

    The transaction has the table's metadata lock from the position on: a change of structure waits until `close`. It sees the
    rows of a moment, but a name is that of whatever table has it when it is read.

    Taking it lets writers of the table wait for the few statements between LOCK TABLES and UNLOCK TABLES; an engine
    without transactions cannot show a past moment, so there the lock stays until `close`. One thread reads at a time.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        planned: PlannedTable,
        position: Callable[[pymysql.Connection[Any]], Offset],
    ) -> None:
        self._endpoint = endpoint
        self._planned = planned
        with contextlib.ExitStack() as undo, planned.diagnosed():
            lock = undo.enter_context(contextlib.closing(endpoint.connect()))
            self._view = endpoint.connect()
            undo.callback(self._view.close)
            self._session = int(execute(self._view, "SELECT CONNECTION_ID()")[0][0])
            self.is_locked = not _has_transactions(lock, planned)
            execute(lock, f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
            # Granted when every transaction that wrote to the table is committed, in the engine and in the binlog.
            execute(lock, f"LOCK TABLES {qualified(planned.schema.table)} READ")
            begin_read(self._view, with_snapshot=True)
            self.position = position(self._view)
            # A change of structure that waits for the lock above makes this wait too.
            execute(self._view, f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
            planned.check(self._view)
            if not self.is_locked:
                execute(lock, "UNLOCK TABLES")
                lock.close()
            self._undo = undo.pop_all()

    def rows(self) -> Iterator[Packets]:
        """All rows; the same at every call. Closing the iterator early ends the statement at the server."""
        with self._planned.diagnosed():
            table = self._planned.schema.table
            rows = select(self._view, self._planned.query(), len(self._planned.schema.columns), f"reading {table}")
            is_done = False
            try:
                for packets in rows:  # noqa: UP028 - `yield from` would close it before the rest can be taken
                    yield packets
                is_done = True
            finally:
                if not is_done:
                    self._end_statement(rows)

    def _end_statement(self, rows: Iterator[Packets]) -> None:
        """End a SELECT that is no longer read, and take what was under way."""
        with contextlib.suppress(Exception):
            with self._endpoint.session() as connection:
                execute(connection, f"KILL QUERY {self._session}")
            with contextlib.suppress(driver().MySQLError):
                for _ in rows:
                    pass
            unread: Any = self._view
            unread._rfile = unread._sock.makefile("rb")  # noqa: SLF001 - see `result_stream.select`
            unread._current_timeout = None  # noqa: SLF001 - as above
            with contextlib.suppress(driver().MySQLError):
                execute(self._view, "DO 0")  # the KILL may have come after the end, and then meets this one

    def interrupt(self) -> None:
        """Make a read that is under way fail soon, by ending the session at the server. From any thread."""
        # Closing our end is not enough: a server that waits to send may not notice, and keep transaction and lock.
        try:
            with self._endpoint.session() as connection:
                execute(connection, f"KILL {self._session}")
        except ReplicatorError as err:
            log.warning("snapshot.session_not_ended", session=self._session, why=err.code)
            unread: Any = self._view
            with contextlib.suppress(OSError, AttributeError):
                unread._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - PyMySQL cannot be closed from another thread

    def close(self) -> None:
        """End transaction and lock; may be called twice."""
        with contextlib.suppress(Exception):
            self._undo.close()


def _has_transactions(connection: pymysql.Connection[Any], planned: PlannedTable) -> bool:
    table = planned.schema.table
    rows = execute(connection, _ENGINE, [table.database, table.table])
    engine, transactions = rows[0] if rows else ("", "NO")
    if transactions != "YES":
        log.warning(
            "writers of the table wait until its snapshot is read: its engine has no transactions and it has no key",
            table=str(table),
            engine=engine,
        )
    return bool(transactions == "YES")
