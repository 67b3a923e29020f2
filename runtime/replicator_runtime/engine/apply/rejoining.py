"""When a stream may read the log again from the saved offset, for tables that join or are tried again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import Offset

JOIN_SECONDS = 60.0
"""Tables whose copies have ended wait no longer for other copies before they take changes."""


class Rejoining:
    """Limits how much of the log is read again.

    A stream first passes the farthest position that any table had when it began. Then it continues for as long as that
    took, before the log is read again: at least half of all reading advances the tables, and the longer the held part
    of the log is, the less often it is read. Used by the engine's main thread.

    Args:
        began: When the attempt began, on this process's clock.
        watermarks: Of the tables that take changes.
    """

    def __init__(self, began: float, watermarks: Iterable[TableWatermark]) -> None:
        self._began = began
        self._mark: Offset | None = None
        for watermark in watermarks:
            if self._mark is None or self._mark < watermark.position.offset:
                self._mark = watermark.position.offset
        self._due_at: float | None = None

    def passed(self, offset: Offset) -> None:
        """The stream has reached `offset`."""
        if self._due_at is None and (self._mark is None or not offset < self._mark):
            self.at_the_end()

    def at_the_end(self) -> None:
        """The stream has reached the end of the log."""
        if self._due_at is None:
            now = time.monotonic()
            self._due_at = now + (now - self._began)

    @property
    def is_due(self) -> bool:
        """Whether the log may be read again."""
        return self._due_at is not None and time.monotonic() >= self._due_at
