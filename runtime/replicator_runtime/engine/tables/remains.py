"""Notes what unfinished copies and refused renames may have left at the target, until the target has deleted it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Remains:
    """Something at the target that no run uses again.

    Attributes:
        table: The table at the target.
        snapshot_id: The plan of a copy that was not finished; empty for a whole table that the runtime had put aside.
    """

    table: TableId
    snapshot_id: str = ""


class RemainsList:
    """At most a thousand, without the oldest of more. Safe from several threads; saved by the table store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: dict[Remains, None] = {}

    def noted(self) -> list[Remains]:
        """Those noted now, oldest first."""
        with self._lock:
            return list(self._noted)

    def note(self, remains: Remains) -> None:
        """Note this; durable with the next save of the table store."""
        with self._lock:
            self._noted[remains] = None
            for oldest in list(self._noted)[:-_MOST]:
                del self._noted[oldest]

    def forget(self, discarded: Collection[Remains]) -> None:
        """The target has none of these any more; durable with the next save of the table store."""
        with self._lock:
            for remains in discarded:
                self._noted.pop(remains, None)

    def to_json(self) -> list[list[Any]]:
        """The form stored."""
        return [[remains.table.to_json(), remains.snapshot_id] for remains in self.noted()]

    def add_stored(self, stored: Iterable[list[Any]]) -> None:
        """Note what `to_json` gave to an earlier run or attempt."""
        for table, snapshot_id in stored:
            self.note(Remains(TableId.from_json(table), snapshot_id))
