"""The copies of tables that run now; they belong to the run, and go on when an attempt ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.attempt_end import SnapshotsStopped
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk.errors import BugError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Copy:
    """The copy of one table.

    Attributes:
        record: The table.
        stop: Set when the copy is to end; its thread looks after each commit.
    """

    record: TableRecord
    stop: threading.Event = field(default_factory=threading.Event)


class Copies:
    """At most one copy a table. Used by the engine's main thread.

    A record is `copying` from `begin` until its outcome was taken: meanwhile its own thread changes it, and a new reading
    of the table store leaves it as it is.
    """

    def __init__(self) -> None:
        self._copies: dict[TableId, tuple[Copy, Future[None]]] = {}

    @property
    def running(self) -> bool:
        """Whether there is one whose outcome was not taken."""
        return bool(self._copies)

    def begin(self, record: TableRecord, submit: Callable[[Copy], Future[None]]) -> None:
        """Begin the copy of a table that has none; `submit` lets it run in a thread."""
        assert not record.copying, "two copies of one table"
        copy = Copy(record)
        record.copying = True
        self._copies[record.table] = (copy, submit(copy))

    def take_ended(self) -> Iterator[tuple[TableRecord, Exception | None]]:
        """Those that have ended, each with its error; what the caller does not take stays for the next call."""
        for copy, future in list(self._copies.values()):
            if future.done():
                self._forget(copy)
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield copy.record, error

    def end(self, table: TableId) -> None:
        """End the copy of `table`, if it has one, after the commit that is under way. Its outcome is only logged.

        Raises:
            BugError: The copy's.
        """
        error = self._end([table]).get(table)
        if isinstance(error, BugError):
            raise error

    def end_all(self) -> None:
        """End every copy like that; raises nothing."""
        self._end(list(self._copies))

    def _end(self, tables: list[TableId]) -> dict[TableId, BaseException]:
        """End copies together; returns their errors, but for those that were ended by this."""
        ended = [self._copies[table] for table in tables if table in self._copies]
        for copy, future in ended:
            copy.stop.set()
            future.cancel()
        wait([future for _, future in ended])
        errors = {}
        for copy, future in ended:
            self._forget(copy)
            error = None if future.cancelled() else future.exception()
            if error is not None and not isinstance(error, SnapshotsStopped):
                errors[copy.record.table] = error
                code = getattr(error, "code", "")
                log.error("snapshot.failed_while_ending", table=str(copy.record.table), code=code, error=summary(error))
        return errors

    def _forget(self, copy: Copy) -> None:
        copy.record.copying = False
        del self._copies[copy.record.table]
