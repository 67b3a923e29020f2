"""A lock for each table: what applies to it and what maintains it take turns."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from replicator_sdk import TableId


class TableLocks:
    """Used from any thread. A thread that holds a lock asks for no other one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[TableId, threading.Lock] = {}

    @contextmanager
    def hold(self, tables: Iterable[TableId]) -> Iterator[None]:
        """Wait until nothing else is done to any of `tables`, and keep it so within the block."""
        with ExitStack() as held:
            for table in sorted(set(tables)):  # in one order: two callers cannot wait for each other
                held.enter_context(self._lock(table))
            yield

    @contextmanager
    def hold_soon(self, table: TableId, seconds: float) -> Iterator[bool]:
        """The same for one table, waiting at most `seconds`; gives whether it is held."""
        lock = self._lock(table)
        is_held = lock.acquire(timeout=seconds)
        try:
            yield is_held
        finally:
            if is_held:
                lock.release()

    def _lock(self, table: TableId) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(table, threading.Lock())
