"""Counts the changes of each table so that no restart and no kill loses or repeats one.

A table's counts are stored with the position that they reach, before the offset that follows. So a replay knows which changes
are not in them: those after that position, also where the target has them already. What no replay brings, rows of copies and the changes
that executors apply, is counted from what the target's own commit says of it.
Why: docs/decisions/0051-counts-are-stored-with-a-position.md
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_runtime.engine.counting.counted_table import CountedTable
from replicator_runtime.stored_forms import TOTALS, TOTALS_CHANGES, head, read_or_set_aside
from replicator_sdk import Position, TableId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from replicator_runtime.observability.metrics import MetricsRegistry
    from replicator_sdk import Counted, Offset, TableProgress
    from replicator_state import StateStore

log = structlog.get_logger()
_WHOLE_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 1.0


class ChangeTotals:
    """Counts of tables, under two state keys: all of them every ten seconds, and those that changed since. Safe from any thread.

    The registry of metrics shows a count once it is stored, so none goes back after a kill.

    Args:
        store: The run's.
        read_offset: Reads a stored offset.
        metrics: Shows the counts.
    """

    def __init__(
        self, store: StateStore, read_offset: Callable[[Mapping[str, bytes]], Offset], metrics: MetricsRegistry
    ) -> None:
        self._store = store
        self._read_offset = read_offset
        self._metrics = metrics
        self._lock = threading.RLock()
        self._entries: dict[TableId, CountedTable] | None = None
        self._gone: dict[str, int] = {}
        self._number = 0
        self._whole_at = -_WHOLE_SECONDS
        self._needs_whole = self._needs_names = False
        self._saved_at = -_SOON_SECONDS
        self._since_whole: set[TableId] = set()
        self._changed = False
        self._unshown: dict[tuple[str, TableId | None], int] = {}

    def load(self) -> None:
        """Read and show what earlier runs counted; later calls do nothing."""
        with self._lock:
            self._loaded()

    def add(self, table: TableId, copy: str, position: Position, counts: Mapping[str, int]) -> None:
        """So much of the table, whose copy is `copy`, is durable at the target up to `position`; what was counted ended before."""
        with self._lock:
            entry = self._loaded().setdefault(table, CountedTable())
            entry.copy, entry.position = copy, position
            self._count(table, entry, counts)

    def copied(self, table: TableId, plan: str, rows: int) -> None:
        """A copy of the table by the plan of that id has written so many rows more, which are inserts as well."""
        with self._lock:
            entry = self._loaded().setdefault(table, CountedTable())
            self._count(table, entry, entry.add_rows(plan, rows))

    def before_slice(self, tables: Collection[TableId]) -> Mapping[TableId, Counted]:
        """What is counted of tables that are about to take a slice; its names are durable when this returns.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            entries = self._loaded()
            for table in tables:
                if entries.setdefault(table, CountedTable()).named():
                    self._touch(table)
                    self._needs_names = True
            if self._needs_names:
                self.save()
            return {table: entries[table].of_changes() for table in tables}

    def recover(self, table: TableId, copy: str, progress: TableProgress) -> None:
        """Count what the table's own commit says of it and no count has, since a run was killed between the two, or heard no answer.

        Called before the table takes changes; they are not in what its commits say from then on.
        """
        with self._lock:
            entry = self._loaded().get(table) or CountedTable()
            rows, changes = entry.missing_rows(progress), entry.missing_changes(progress)
            if rows or changes:
                self._entries_now[table] = entry
            if changes:
                entry.copy, entry.position = copy, progress.position
                self._count(table, entry, changes)
            if rows:
                self._count(table, entry, entry.add_rows(progress.snapshot_id, rows))

    def recover_copy(self, table: TableId, plan: str, progress: TableProgress | None) -> None:
        """As `recover`, where what the target has is of this plan's copy; else nothing."""
        if progress is not None and progress.snapshot_id == plan:
            self.recover(table, plan, progress)

    def has(self, table: TableId, position: Position) -> bool:
        """Whether the event at `position` was the last of the table that was counted."""
        with self._lock:
            entry = self._loaded().get(table)
            return entry is not None and entry.position == position

    def begin(
        self,
        table: TableId,
        copy: str,
        first: Position | None,
        found: Position,
        saved: Offset | None,
        *,
        has_lane: bool = False,
    ) -> Position | None:
        """From where on a replay is to count what the table has already; None when all of that is counted.

        Args:
            table: The table.
            copy: Its copy's id.
            first: The position of its copy, whose rows have all changes before; None without a copy.
            found: Where the table is.
            saved: Where the replay begins.
            has_lane: Whether the table has a lane: then `found` may be where the lane begins, and what the target has of it is counted.
        """
        with self._lock:
            entry = self._loaded().get(table)
            known = first
            if entry is not None and entry.position is not None and entry.copy == copy:
                if found < entry.position and not has_lane:  # the table went back: what it gets again counts again
                    entry.position = found
                    self._touch(table)
                known = entry.position
            floor = None if saved is None else Position(saved)
            if known is None or (floor is not None and known < floor):
                known = floor
            return known if known is not None and known < found else None

    def rename(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once."""
        with self._lock:
            self._save(whole=False)
            entries = self._loaded()
            entries.update({names[former]: entries.pop(former) for former in names if former in entries})
            self._since_whole.update(names, names.values())
            self._changed = True
            self._metrics.rename(names)

    def forget_others(self, tables: Mapping[TableId, str], missing: Collection[TableId] = ()) -> None:
        """Drop the entries of tables that are not in `tables`, which have their copies' ids; their counts go on together, durable when this returns.

        A copy that has another table's name now keeps them: a kill came between its new name and `rename`. What is shown of `missing`
        tables stays theirs.

        Raises:
            ReplicatorError: As the state's store fails; the next call goes on.
        """
        with self._lock:
            gone = self._loaded().keys() - tables.keys()
            if gone:
                renamed = {copy: table for table, copy in tables.items() if copy and table not in self._entries_now}
                names = {t: renamed[c] for t in gone if (c := self._entries_now[t].copy) in renamed}
                self.rename(names)
                for table in gone - names.keys():
                    for name, count in self._entries_now.pop(table).counts.items():
                        self._gone[name] = self._gone.get(name, 0) + count
                    self._touch(table)
                    self._needs_whole = True
            if self._needs_whole:
                self._save(whole=True)  # what has the counts of no table any more is shown so once it is stored
            self._metrics.forget_others({*tables, *missing})

    def save(self) -> None:
        """Store what was counted, durable when this returns: before the offset that follows is saved.

        Raises:
            ReplicatorError: As the state's store fails.
        """
        with self._lock:
            self._save(whole=time.monotonic() - self._whole_at >= _WHOLE_SECONDS)

    def save_soon(self, *, at_once: bool = False) -> None:
        """The same at most once a second unless `at_once`, for times when no offset is saved; a failure only delays it."""
        with self._lock:
            if not self._changed or (not at_once and time.monotonic() - self._saved_at < _SOON_SECONDS):
                return
            try:
                self.save()
            except Exception as error:  # noqa: BLE001 - the offset's own save says what is wrong with the store
                log.warning("totals.not_saved", error=str(error))

    @property
    def _entries_now(self) -> dict[TableId, CountedTable]:
        assert self._entries is not None
        return self._entries

    def _count(self, table: TableId, entry: CountedTable, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            if count:
                entry.counts[name] = entry.counts.get(name, 0) + count
                self._unshown[name, table] = self._unshown.get((name, table), 0) + count
        self._touch(table)

    def _touch(self, table: TableId) -> None:
        self._since_whole.add(table)
        self._changed = True

    def _save(self, *, whole: bool) -> None:
        if self._changed:
            if whole or self._needs_whole:  # the counts of tables that are gone are in no other value
                self._number += 1
                content = {"number": self._number, "gone": self._gone, "tables": self._json(self._entries_now)}
                self._store.put(TOTALS, json.dumps({**head(TOTALS), **content}).encode())
                self._since_whole, self._whole_at, self._needs_whole = set(), time.monotonic(), False
            else:
                content = {"follows": self._number, "tables": self._json(self._since_whole)}
                self._store.put(TOTALS_CHANGES, json.dumps({**head(TOTALS_CHANGES), **content}).encode())
            self._changed, self._saved_at, self._needs_names = False, time.monotonic(), False
        self._metrics.count_all(self._unshown)
        self._unshown = {}

    def _loaded(self) -> dict[TableId, CountedTable]:
        if self._entries is None:
            self._entries = {}
            whole, changes = self._read(TOTALS), self._read(TOTALS_CHANGES)
            self._number, self._gone = whole.get("number", 0), whole.get("gone", {})
            listed = [*whole.get("tables", ())]
            if changes.get("follows") == self._number:
                listed += changes["tables"]
            for value in listed:
                table = TableId.from_json(value["table"])
                self._entries.pop(table, None)
                if "counts" in value:
                    self._entries[table] = CountedTable.from_json(value, self._read_offset)
            self._metrics.count_gone(self._gone)
            self._metrics.count_all({(n, t): c for t, e in self._entries.items() for n, c in e.counts.items()})
        return self._entries

    def _read(self, key: str) -> dict[str, Any]:
        return read_or_set_aside(self._store, key, dict) or {}  # numbers for people: damage is no reason to stop

    def _json(self, tables: Mapping[TableId, object] | set[TableId]) -> list[dict[str, Any]]:
        """The entries of these tables; of one that has none its name alone."""
        found = []
        for table in tables:
            value: dict[str, Any] = {"table": table.to_json()}
            if (entry := self._entries_now.get(table)) is not None:
                value |= entry.to_json()
            found.append(value)
        return found
