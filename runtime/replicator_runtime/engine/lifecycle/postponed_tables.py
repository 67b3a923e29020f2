"""Tables that are new in the source's catalogue, and that may be known ones whose RENAME_TABLE the log has not shown yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replicator_sdk import Offset, TableId

_SECONDS = 15.0


class PostponedTables:
    """New tables that are not taken in yet. Used by the engine's main thread.

    They wait while a table that is replicated is missing from the catalogue, until the log says what became of it: for at most
    fifteen seconds after the stream has passed where the log ended when they were found. From then on they are copied.

    Attributes:
        tables: Those that wait for that.
        reused: Those that wait until the saved offset is past the place where another table had their name.
    """

    def __init__(self) -> None:
        self.tables: frozenset[TableId] = frozenset()
        self.reused: frozenset[TableId] = frozenset()
        self._until: Offset | None = None
        self._passed_at: float | None = None
        self._waited: set[TableId] = set()

    def __contains__(self, table: TableId) -> bool:
        return table in self.tables or table in self.reused

    def __bool__(self) -> bool:
        return bool(self.tables or self.reused)

    def may_wait(self, tables: Iterable[TableId]) -> frozenset[TableId]:
        """Those of `tables` that have not waited long enough."""
        return frozenset(tables) - self._waited

    def begin(self, tables: frozenset[TableId], reused: frozenset[TableId], until: Offset | None) -> None:
        """An attempt begins in which these wait; `until` is the end of the log."""
        if tables != self.tables:
            self._until, self._passed_at = until, None
        self.tables, self.reused = tables, reused

    def passed(self, offset: Offset) -> bool:
        """The stream has come to `offset`; returns whether tables have now waited long enough."""
        if not self.tables:
            return False
        if self._passed_at is None and (self._until is None or not offset < self._until):
            self._passed_at = time.monotonic()
        if self._passed_at is None or time.monotonic() - self._passed_at < _SECONDS:
            return False
        self._waited |= self.tables
        return True
