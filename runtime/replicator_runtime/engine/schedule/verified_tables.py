"""What the scheduled comparisons found of each table last: stored under one key, so that it outlives runs."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from replicator_runtime.engine.run_state.retry_budget import growing_wait
from replicator_runtime.stored_forms import VERIFIED, head, parsed
from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from replicator_state import StateStore

_EVERY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class VerifiedTable:
    """What was found of a table; times in seconds since 1970.

    Attributes:
        copy_id: The copy that was compared.
        at: When the last comparison ended that had a result; None when none had.
        result: `equal`, `different`, or empty when none had a result.
        missing: Rows that the target lacked then.
        surplus: Rows that it had too many.
        different: Rows that it had with other values.
        changing: Rows that changed whenever they were looked at.
        rows_source: How many rows the source had.
        position: The source's position then.
        seconds: How long it took.
        tried_at: When the last comparison ended, with a result or without one.
        error: Why that had none, with its code; empty when it had.
        failures: How many had none since the last that had.
    """

    copy_id: str
    at: float | None = None
    result: str = ""
    missing: int = 0
    surplus: int = 0
    different: int = 0
    changing: int = 0
    rows_source: int = 0
    position: str = ""
    seconds: float = 0.0
    tried_at: float = 0.0
    error: str = ""
    failures: int = 0

    def due_at(self, every: float, since: float) -> float:
        """When the table is to be compared next.

        One without a result is tried again after a minute, and then after twice as long each time, up to the interval.

        Args:
            every: Seconds between two comparisons.
            since: When the schedule was made; what was found before it makes a table due at once.
        """
        if self.tried_at < since:
            return since
        if self.error:
            return self.tried_at + growing_wait(self.failures, every)
        return self.tried_at + every


class VerifiedTables:
    """All tables'. Used by one thread."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._found = stored(store)
        self._changed = False
        self._saved_at = time.monotonic()

    def get(self, table: TableId, copy_id: str) -> VerifiedTable:
        """What was found of this copy of the table; nothing when it was not compared yet."""
        found = self._found.get(table)
        return found if found is not None and found.copy_id == copy_id else VerifiedTable(copy_id)

    def note(self, table: TableId, found: VerifiedTable) -> None:
        """Keep what was found; durable after at most some seconds, or `save`."""
        self._found[table] = found
        self._changed = True
        if time.monotonic() - self._saved_at >= _EVERY_SECONDS:
            self.save()

    def follow_renames(self, copies: Mapping[str, TableId]) -> Mapping[TableId, TableId]:
        """What was found of a copy stays with it when its table is called something else.

        Args:
            copies: The table of each copy, as it is called now.

        Returns:
            By the former name, what a compared table is called now.
        """
        names = {
            table: copies[found.copy_id]
            for table, found in self._found.items()
            if copies.get(found.copy_id, table) != table
        }
        if names:
            self._found = {names.get(table, table): found for table, found in self._found.items()}
            self._changed = True
        return names

    def note_copies(self, copies: Mapping[TableId, str]) -> None:
        """Keep which copies these tables have, so that renames can be followed before the first comparison."""
        for table, copy_id in copies.items():
            if table not in self._found or self._found[table].copy_id != copy_id:
                self._found[table] = VerifiedTable(copy_id)
                self._changed = True

    def keep_only(self, tables: Container[TableId]) -> None:
        """Drop what is kept of others than these."""
        gone = [table for table in self._found if table not in tables]
        for table in gone:
            del self._found[table]
        self._changed |= bool(gone)

    def save(self) -> None:
        """Store what was noted.

        Raises:
            ReplicatorError: As the store fails.
        """
        self._saved_at = time.monotonic()
        if self._changed:
            entries = [{"table": table.to_json(), **asdict(found)} for table, found in self._found.items()]
            self._store.put(VERIFIED, json.dumps({**head(VERIFIED), "tables": entries}).encode())
            self._changed = False


def stored(store: StateStore) -> dict[TableId, VerifiedTable]:
    """What is stored of each table."""
    content = store.get(VERIFIED)
    found = parsed(VERIFIED, content)["tables"] if content else []
    return {TableId.from_json(one.pop("table")): VerifiedTable(**one) for one in found}
