"""Counters and gauges of one replicator, in this process."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from replicator_sdk.context import Metrics
from replicator_sdk.schema import TableId

if TYPE_CHECKING:
    from replicator_sdk.discovery.table_storage import TableStorage

_Number = TypeVar("_Number", int, float)
SNAPSHOT_ROWS: Final = "snapshot.rows"
"""The counter of rows that copies have written; `dml.insert` has them as well."""

FAILURES: Final = "failures."
"""What the counters of failures begin with; the error's code follows."""


@dataclass(frozen=True, slots=True)
class Values:
    """All values at one moment, by name and table; without a table they are of the whole.

    Attributes:
        counters: A counter of the whole includes those of its tables, and of those that are gone.
        gauges: Last values.
        timings: How often each step of a batch was done, and the seconds that it took in all.
        gone: The counters of all tables together that are replicated no more.
        storage: What the target stores of each table.
    """

    counters: Mapping[tuple[str, TableId | None], int]
    gauges: Mapping[tuple[str, TableId | None], float]
    timings: Mapping[str, tuple[int, float]]
    gone: Mapping[str, int] = field(default_factory=dict)
    storage: Mapping[TableId, TableStorage] = field(default_factory=dict)


class MetricsRegistry(Metrics):
    """Adds up what plugins report; names are prefixed with the target's name, so `dml.insert` is `delta.dml.insert`.

    Safe from any thread, never blocks longer than an addition, never raises. Totals count from the start of the run.

    Args:
        target: Name of the target, the prefix.

    Attributes:
        on_rename: Called with the names of tables that have others from now on, before any value is under a new one; must not wait.
    """

    def __init__(self, target: str) -> None:
        self.on_rename: Callable[[Mapping[TableId, TableId]], None] | None = None
        self._prefix = target
        self._lock = threading.Lock()
        self._gone: defaultdict[str, int] = defaultdict(int)
        self._counters: defaultdict[tuple[str, TableId | None], int] = defaultdict(int)
        self._gauges: dict[tuple[str, TableId | None], float] = {}
        self._timings: dict[str, tuple[int, float]] = {}
        self._storage: dict[TableId, TableStorage] = {}

    def count(self, name: str, value: int = 1, *, table: TableId | None = None) -> None:
        """Add `value` to the counter `name`, of the table and of the whole."""
        with self._lock:
            self._counters[name, None] += value
            if table is not None:
                self._counters[name, table] += value

    def count_all(self, counts: Mapping[tuple[str, TableId | None], int]) -> None:
        """Add to many counters at once; those of tables count for the whole, too."""
        with self._lock:
            for (name, table), value in counts.items():
                self._counters[name, None] += value
                if table is not None:
                    self._counters[name, table] += value

    def count_gone(self, counts: Mapping[str, int]) -> None:
        """Add what was counted of tables that are gone; it counts for the whole, too."""
        with self._lock:
            for name, value in counts.items():
                self._counters[name, None] += value
                self._gone[name] += value

    def took(self, step: str, seconds: float) -> None:
        """A step of a batch took so long."""
        with self._lock:
            times, total = self._timings.get(step, (0, 0.0))
            self._timings[step] = (times + 1, total + seconds)

    def gauge(self, name: str, value: float, *, table: TableId | None = None) -> None:
        """Set the gauge `name`, of the table when one is given, else of the whole."""
        with self._lock:
            self._gauges[name, table] = value

    def stored(self, table: TableId, storage: TableStorage) -> None:
        """The target's table consists of that now."""
        with self._lock:
            self._storage[table] = storage

    def rename(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once: what was counted of each goes on under its new name."""
        with self._lock:
            if self.on_rename is not None:
                self.on_rename(names)
            _rename(self._counters, names)
            _rename(self._gauges, names)
            moved = {names[table]: self._storage.pop(table) for table in names if table in self._storage}
            self._storage |= moved

    def forget_others(self, tables: Container[TableId]) -> None:
        """Keep nothing by table of those that are not in `tables`: their counters go on together, as those of tables that are gone."""
        with self._lock:
            for name, table in [key for key in self._counters if key[1] is not None and key[1] not in tables]:
                self._gone[name] += self._counters.pop((name, table))
            self._gauges = {key: value for key, value in self._gauges.items() if key[1] is None or key[1] in tables}
            self._storage = {table: storage for table, storage in self._storage.items() if table in tables}

    def forget_gauges(self, table: TableId) -> None:
        """The table is replicated no more: nothing is known of how it is now; what was counted of it stays until `forget_others`."""
        with self._lock:
            self._gauges = {key: value for key, value in self._gauges.items() if key[1] != table}
            self._storage.pop(table, None)

    def total(self, name: str, *, table: TableId | None = None) -> int:
        """The counter's value; 0 when nothing was counted."""
        with self._lock:
            return self._counters.get((name, table), 0)

    def value(self, name: str) -> float | None:
        """The gauge of the whole; None when it was never set."""
        with self._lock:
            return self._gauges.get((name, None))

    def values(self) -> Values:
        """A consistent copy of everything."""
        with self._lock:
            counted = dict(self._counters), dict(self._gauges), dict(self._timings), dict(self._gone)
            return Values(*counted, dict(self._storage))

    def snapshot(self) -> dict[str, Any]:
        """Everything as JSON: `counters` and `gauges` of the whole, and the same of each table under `tables`."""
        values = self.values()
        result: dict[str, Any] = {"counters": {}, "gauges": {}, "tables": {}}
        for kind, known in (("counters", values.counters), ("gauges", values.gauges)):
            for (name, table), value in sorted(known.items(), key=lambda item: (item[0][0], str(item[0][1]))):
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
