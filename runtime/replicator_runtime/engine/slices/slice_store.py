"""Stores the ends of slices, and schema changes that are about to be applied.

Offsets of a log with many partitions are not all comparable. The end of a slice is stored *before* it is applied, so
that every table's position and every saved offset is on one chain: after a crash no slice crosses an end that may be
a table's position.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from replicator_runtime.stored_forms import SLICES, head, parsed
from replicator_sdk import Alter, AlterKind, Column, DDLEvent, DDLOperation, Position, TableId, TableSchema
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.offset import offset_from_json, offset_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from replicator_sdk import Offset
    from replicator_state import StateStore


class SliceStore:
    """Kept under one state key. Used by the engine's main thread.

    Attributes:
        ends: Ascending: the offsets that are, or will be, a table's position.
        pending: Schema changes to be applied, or perhaps applied, at most one for each table.
    """

    def __init__(self, store: StateStore, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> None:
        self._store = store
        self._read_offset = read_offset
        self.ends: list[Offset] = []
        self.pending: list[DDLEvent] = []

    def load(self, positions: Iterable[Offset]) -> None:
        """Read what an earlier run stored, and add the positions of tables."""
        content = self._store.get(SLICES)
        kept = parsed(SLICES, content) if content else {"ends": [], "pending": []}
        self.ends = [self._offset(end) for end in kept["ends"]]
        self.pending = [self._event(event) for event in kept["pending"]]
        for offset in positions:
            self._insert(offset)

    def check_done(self, saved: Offset | None) -> None:
        """Check that one reader may continue from `saved`.

        Tables take a slice one after the other. When a run ended within one, some are at its end and others at its start,
        and only the same slice brings them together again: the windows of one reader end elsewhere, and offsets off the
        chain are not comparable.

        Raises:
            NeedsUserError: When a slice may be half done.
        """
        if self.ends and (saved is None or saved < self.ends[-1]):
            raise NeedsUserError(
                "executors were reading this log and did not reach its end: some tables may be ahead of others",
                code="RPL-4102",
                position=str(saved),
                hint="let executors read once more (source and settings as before), run until it is current and every table"
                " replicates, stop it in order, and let one reader go on then",
            )

    def next_end(self, offset: Offset) -> Offset | None:
        """The first stored end after `offset`: no slice may cross it."""
        return next((end for end in self.ends if offset < end), None)

    def plan(self, end: Offset, current: Offset, saved: Offset | None, positions: Iterable[Offset]) -> None:
        """A slice up to `end` is about to be applied; durable when this returns.

        Args:
            end: Where it ends.
            current: Where it starts.
            saved: The saved offset, from which a replay starts: ends up to it are forgotten.
            positions: Offsets that are, or may be, a table's position: other ends up to `current` are forgotten, too.
        """
        kept = set(positions)
        self.ends = [e for e in self.ends if (saved is None or saved < e) and (current < e or e in kept)]
        self._insert(end)
        self._save()

    def set_back(self, positions: Iterable[Offset], tables: Collection[TableId]) -> None:
        """The log is read again from an earlier offset; durable when this returns.

        Args:
            positions: Of the tables that stayed after that offset: no slice may cross them.
            tables: Those tables, whose announced schema changes are kept.
        """
        if self._store.get(SLICES) is None:
            return
        self.load(())
        self.ends = []
        for offset in positions:
            self._insert(offset)
        self.pending = [event for event in self.pending if event.table in tables]
        self._save()

    def announce(self, events: list[DDLEvent]) -> None:
        """Store schema changes that are about to be applied, each of another table; durable when this returns."""
        tables = {event.table for event in events}
        self.pending = [*(event for event in self.pending if event.table not in tables), *events]
        self._save()

    def keep(self, events: list[DDLEvent]) -> None:
        """Only these of the announced ones are not applied; durable when this returns."""
        self.pending = events
        self._save()

    def _insert(self, offset: Offset) -> None:
        if offset not in self.ends:
            self.ends = [*(e for e in self.ends if e < offset), offset, *(e for e in self.ends if offset < e)]

    def _save(self) -> None:
        content = {
            **head(SLICES),
            "ends": [offset_to_json(e) for e in self.ends],
            "pending": [_event_json(e) for e in self.pending],
        }
        self._store.put(SLICES, json.dumps(content).encode(), numbered=True)

    def _offset(self, value: dict[str, str]) -> Offset:
        return offset_from_json(value, self._read_offset)

    def _event(self, value: dict[str, Any]) -> DDLEvent:
        offset = self._offset(value["offset"])
        schema = TableSchema.from_json(value["schema"])
        alters = tuple(
            Alter(
                AlterKind(a["kind"]),
                a["column"] and Column.from_json(a["column"]),
                a["previous"] and Column.from_json(a["previous"]),
            )
            for a in value["alters"]
        )
        return DDLEvent(
            offset,
            DDLOperation(value["operation"]),
            TableId.from_json(value["table"]),
            schema,
            alters=alters,
            position=Position(offset, value["eventsAfter"]),
        )


def _event_json(event: DDLEvent) -> dict[str, Any]:
    """An event as `SchemaStep`s make them: its columns have no defaults."""
    assert event.schema is not None
    assert event.position is not None
    return {
        "offset": offset_to_json(event.offset),
        "eventsAfter": event.position.events_after,
        "operation": event.operation.value,
        "table": event.table.to_json(),
        "schema": event.schema.to_json(),
        "alters": [
            {
                "kind": a.kind.value,
                "column": a.column and a.column.to_json(),
                "previous": a.previous and a.previous.to_json(),
            }
            for a in event.alters
        ],
    }
