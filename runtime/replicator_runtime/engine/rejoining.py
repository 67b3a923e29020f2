"""When a stream may read the log again from the saved offset, for tables that join or come back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replicator_runtime.engine.gather import TableFloor
    from replicator_sdk import Offset


class Rejoining:
    """Keeps what is read again from growing into all that is read.

    A stream first passes the farthest position that any table had when it began. Then it goes on for as long as that
    took, before the log is read again: at least half of all reading brings the tables forward, and the longer the held
    part of the log grows, the rarer it is read. Used by the engine's main thread.

    Args:
        began: When the attempt began, on this process's clock.
        floors: Where the tables are.
    """

    def __init__(self, began: float, floors: Iterable[TableFloor]) -> None:
        self._began = began
        self._mark: Offset | None = None
        for floor in floors:
            if self._mark is None or self._mark < floor.position.offset:
                self._mark = floor.position.offset
        self._due_at: float | None = None

    def passed(self, offset: Offset) -> None:
        """The stream has come to `offset`."""
        if self._due_at is None and (self._mark is None or not offset < self._mark):
            self.at_the_end()

    def at_the_end(self) -> None:
        """The stream has come to the end of the log."""
        if self._due_at is None:
            now = time.monotonic()
            self._due_at = now + (now - self._began)

    @property
    def is_due(self) -> bool:
        """Whether the log may be read again."""
        return self._due_at is not None and time.monotonic() >= self._due_at
