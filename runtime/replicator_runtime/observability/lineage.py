"""Which source column is written to which target column; kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from replicator_sdk.context import LineageRecorder
from replicator_sdk.schema import TableId


class Lineage(LineageRecorder):
    """Keeps each table's newest column mapping per target; the same record again costs nothing.

    Safe from any thread. Held in memory only: the last minutes may be lost with the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns: dict[tuple[TableId, str], dict[str, str]] = {}
        self._newest: dict[TableId, str] = {}

    def record(self, table: TableId, target: str, columns: Mapping[str, str]) -> None:
        """`table` is written to `target` with `columns` (source column to target column), replacing what was known."""
        with self._lock:
            self._columns[table, target] = dict(columns)
            self._newest[table] = target

    def recorded(self, table: TableId) -> tuple[str, Mapping[str, str]] | None:
        """The target and the columns that were recorded of `table` last; None when nothing was."""
        with self._lock:
            target = self._newest.get(table)
            return None if target is None else (target, self._columns[table, target])

    def snapshot(self) -> list[dict[str, Any]]:
        """One JSON object for each table and target, sorted: `table`, `target`, `columns`."""
        with self._lock:
            known = sorted(self._columns.items(), key=lambda item: (item[0][0], item[0][1]))
            return [{"table": t.to_json(), "target": target, "columns": dict(c)} for (t, target), c in known]
