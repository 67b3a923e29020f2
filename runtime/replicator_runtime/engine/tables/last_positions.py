"""Stores the last position of each table at the target, so that an older copy of a target's table is noticed.

A table's own commit says how far it is, and the log is applied from there. When an operator restores an older copy of
the table (a backup), the changes between the copy and the saved offset are in no replay. A stored position is never ahead
of the target: it is recorded once its commit is durable, and stored at most every ten seconds and at the end of an attempt.
So a crash hides at most those seconds, and never reports a table wrongly.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import structlog

from replicator_runtime.stored_forms import POSITIONS, head, parsed
from replicator_sdk import Position, TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset
    from replicator_state import StateStore

log = structlog.get_logger()
_EVERY_SECONDS = 10.0

_Entry = tuple[str, Position]


class LastPositions:
    """The last durable position of each table, under one state key. Safe from any thread.

    Each is kept with the table's copy (its snapshot's id; empty without snapshots): a new copy starts from its own position.
    """

    def __init__(self, store: StateStore, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> None:
        self._store = store
        self._read_offset = read_offset
        self._lock = threading.Lock()
        self._tables: dict[TableId, _Entry] | None = None
        self._changed = False
        self._saved_at = time.monotonic()

    def reached(self, table: TableId, copy: str, position: Position) -> None:
        """A commit of `table` at `position` is durable; the table is the copy `copy`."""
        with self._lock:
            known = self._loaded().get(table)
            if known is None or known[0] != copy or known[1] < position:
                self._tables_now[table] = (copy, position)
                self._changed = True

    def last(self, table: TableId, copy: str) -> Position | None:
        """The last position of `table` that is known to be durable, of this copy; the target may be further. None when there is none."""
        with self._lock:
            known = self._loaded().get(table)
            return known[1] if known is not None and known[0] == copy else None

    def is_older_copy(self, table: TableId, copy: str, found: Position, saved: Offset | None) -> bool:
        """Whether the target's table went back to `found`, and no replay brings what it lost.

        Otherwise `found` counts from now on. A replay from an offset before `found` may end at an earlier position than
        before, where batches are cut elsewhere; so a lower one is stored at once.

        Args:
            table: The table.
            copy: Its snapshot's id; empty without snapshots.
            found: What the target's own last commit says.
            saved: The saved offset.
        """
        with self._lock:
            known = self._loaded().get(table)
            went_back = known is not None and known[0] == copy and found < known[1]
            if went_back and saved is not None and found.offset < saved:
                return True
            if known != (copy, found):
                self._tables_now[table] = (copy, found)
                self._changed = True
            if went_back:
                self._save()
            return False

    def set_back(self, tables: Mapping[TableId, tuple[str, Position]]) -> None:
        """Tables were brought back to these positions, each of the copy named with it; durable when this returns.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            known = self._loaded()
            self._changed = self._changed or any(known.get(table) != entry for table, entry in tables.items())
            self._tables_now.update(tables)
            self._save()

    def save_when_due(self) -> None:
        """Store what was noted, at most every ten seconds."""
        if time.monotonic() - self._saved_at >= _EVERY_SECONDS:
            self.save()

    def save(self) -> None:
        """Store what was noted; a failure costs only that an older copy may go unnoticed, so it ends no run."""
        with self._lock:
            try:
                self._save()
            except Exception as error:  # noqa: BLE001 - the offset's own save says what is wrong with the store
                log.warning("positions.not_saved", error=str(error))

    def forget_others(self, tables: Mapping[TableId, object]) -> None:
        """Drop what is kept of tables that are not in `tables`."""
        with self._lock:
            gone = self._loaded().keys() - tables.keys()
            for table in gone:
                del self._tables_now[table]
            self._changed = self._changed or bool(gone)

    @property
    def _tables_now(self) -> dict[TableId, _Entry]:
        assert self._tables is not None
        return self._tables

    def _loaded(self) -> dict[TableId, _Entry]:
        if self._tables is None:
            content = self._store.get(POSITIONS)
            entries = parsed(POSITIONS, content)["tables"] if content else []
            self._tables = dict(map(self._entry, entries))
        return self._tables

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if not self._changed:
            return
        entries = [_json(table, *entry) for table, entry in self._tables_now.items()]
        self._store.put(POSITIONS, json.dumps({**head(POSITIONS), "tables": entries}).encode())
        self._changed = False

    def _entry(self, value: dict[str, Any]) -> tuple[TableId, _Entry]:
        return TableId.from_json(value["table"]), (value["copy"], Position.from_json(value, self._read_offset))


def _json(table: TableId, copy: str, position: Position) -> dict[str, Any]:
    return {"table": table.to_json(), "copy": copy, **position.to_json()}
