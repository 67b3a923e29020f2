"""The copies of tables that run now; they belong to the run, and go on when an attempt ends."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId


@dataclass(slots=True, eq=False)
class Copy:
    """The copy of one table.

    Attributes:
        record: The table.
        stop: Set when the copy is to end; it looks after each commit.
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
        """Whether any has not ended."""
        return any(not future.done() for _, future in self._copies.values())

    def begin(self, record: TableRecord, submit: Callable[[Copy], Future[None]]) -> None:
        """Begin the copy of a table that has none; `submit` lets it run in a thread."""
        copy = Copy(record)
        record.copying = True
        self._copies[record.table] = (copy, submit(copy))

    def take_ended(self) -> list[tuple[TableRecord, Exception | None]]:
        """Those that ended since the last call, with their error."""
        outcomes = []
        for copy, future in [found for found in self._copies.values() if found[1].done()]:
            self._forget(copy)
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            outcomes.append((copy.record, error))
        return outcomes

    def end(self, table: TableId) -> None:
        """End the copy of `table`, if it has one, after the commit that is under way; its outcome is dropped."""
        self._end([table])

    def end_all(self) -> None:
        """End every copy like that."""
        self._end(list(self._copies))

    def _end(self, tables: list[TableId]) -> None:
        ended = [self._copies[table] for table in tables if table in self._copies]
        for copy, future in ended:
            copy.stop.set()
            future.cancel()
        wait([future for _, future in ended])
        for copy, _ in ended:
            self._forget(copy)

    def _forget(self, copy: Copy) -> None:
        copy.record.copying = False
        del self._copies[copy.record.table]
