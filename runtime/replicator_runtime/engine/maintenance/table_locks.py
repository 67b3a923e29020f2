"""A lock for each table: what applies to it and what maintains it take turns."""

from __future__ import annotations

import enum
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from replicator_sdk import TableId


class Held(enum.Flag):
    """What of a table is held. In the order of the members, so that no two callers wait for each other."""

    STRUCTURE = enum.auto()
    ROWS = enum.auto()
    WHOLE = STRUCTURE | ROWS


class TableLocks:
    """Used from any thread. A thread that holds a lock asks for no other one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[tuple[TableId, Held], threading.Lock] = {}

    @contextmanager
    def hold(self, tables: Iterable[TableId], what: Held = Held.WHOLE) -> Iterator[None]:
        """Wait until nothing else is done to `what` of any of `tables`, and keep it so within the block."""
        with ExitStack() as held:
            for table in sorted(set(tables)):  # in one order, as the parts: two callers cannot wait for each other
                for lock in self._of(table, what):
                    held.enter_context(lock)
            yield

    @contextmanager
    def hold_soon(self, table: TableId, seconds: float, what: Held = Held.WHOLE) -> Iterator[bool]:
        """The same for one table, waiting at most `seconds` for each part; gives whether it is held."""
        with ExitStack() as held:
            for lock in self._of(table, what):
                if not lock.acquire(timeout=seconds):
                    yield False
                    return
                held.callback(lock.release)
            yield True

    def _of(self, table: TableId, what: Held) -> list[threading.Lock]:
        with self._guard:
            return [self._locks.setdefault((table, part), threading.Lock()) for part in what]
