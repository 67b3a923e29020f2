"""Counters and gauges of one replicator, in this process."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeVar

from replicator_sdk.context import Metrics
from replicator_sdk.schema import TableId

_Number = TypeVar("_Number", int, float)


class MetricsRegistry(Metrics):
    """Adds up what plugins report; names are prefixed with the target's name, so `dml.insert` is `delta.dml.insert`.

    Safe from any thread, never blocks longer than an addition, never raises. Totals count from the start of the run.

    Args:
        target: Name of the target, the prefix.
    """

    def __init__(self, target: str) -> None:
        self._prefix = target
        self._lock = threading.Lock()
        self._counters: defaultdict[tuple[str, TableId | None], int] = defaultdict(int)
        self._gauges: dict[tuple[str, TableId | None], float] = {}

    def count(self, name: str, value: int = 1, *, table: TableId | None = None) -> None:
        """Add `value` to the counter `name`, of the table and of the whole."""
        with self._lock:
            self._counters[name, None] += value
            if table is not None:
                self._counters[name, table] += value

    def gauge(self, name: str, value: float, *, table: TableId | None = None) -> None:
        """Set the gauge `name`, of the table when one is given, else of the whole."""
        with self._lock:
            self._gauges[name, table] = value

    def rename(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once: what was counted of each goes on under its new name."""
        with self._lock:
            _rename(self._counters, names)
            _rename(self._gauges, names)

    def total(self, name: str, *, table: TableId | None = None) -> int:
        """The counter's value; 0 when nothing was counted."""
        with self._lock:
            return self._counters.get((name, table), 0)

    def value(self, name: str) -> float | None:
        """The gauge of the whole; None when it was never set."""
        with self._lock:
            return self._gauges.get((name, None))

    def snapshot(self) -> dict[str, Any]:
        """Everything as JSON: `counters` and `gauges` of the whole, and the same of each table under `tables`."""
        with self._lock:
            counters, gauges = dict(self._counters), dict(self._gauges)
        result: dict[str, Any] = {"counters": {}, "gauges": {}, "tables": {}}
        for kind, values in (("counters", counters), ("gauges", gauges)):
            for (name, table), value in sorted(values.items(), key=lambda item: (item[0][0], str(item[0][1]))):
                place = result
                if table is not None:
                    place = result["tables"].setdefault(str(table), {"counters": {}, "gauges": {}})
                place[kind][f"{self._prefix}.{name}"] = value
        return result


def _rename(kept: MutableMapping[tuple[str, TableId | None], _Number], names: Mapping[TableId, TableId]) -> None:
    found = [(name, table) for name, table in kept if table is not None and table in names]
    moved = [(name, names[table], kept.pop((name, table))) for name, table in found]
    for name, table, value in moved:
        kept[name, table] = value
