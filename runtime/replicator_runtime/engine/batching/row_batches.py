"""Collects events that a reader emits row by row into batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from replicator_sdk import ChangeBatch, DMLEvent, DMLOperation
from replicator_sdk.errors import BugError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_sdk import TableId, TableSchema

_ROWS = 10_000


class RowBatches:
    """Collects the `DMLEvent`s of one window by table, and numbers them for readers that give no ordinals.

    Attributes:
        events: How many events came since the last commit.
    """

    def __init__(self, schemas: Mapping[TableId, TableSchema]) -> None:
        self._schemas = dict(schemas)
        self._waiting: dict[tuple[TableId, bool], list[tuple[int, DMLEvent]]] = {}
        self._count = 0
        self._is_numbered = False
        self.events = 0

    @property
    def full(self) -> bool:
        """Whether it is time to `take`."""
        return self._count >= _ROWS

    def learn(self, schema: TableSchema) -> None:
        """Rows of this table have another schema from now on."""
        self._schemas[schema.table] = schema

    def next_ordinal(self, given: int = 0) -> int:
        """Count one event; its ordinal is the one its reader gave or, for a reader that gives none, the count.

        A reader that gives ordinals may emit the events of different tables in any order.
        """
        self._is_numbered |= given > 0
        ordinal = given if self._is_numbered else self.events
        self.events = max(self.events, ordinal + 1)
        return ordinal

    def add(self, event: DMLEvent) -> None:
        """Gather one row."""
        if event.table is None:
            raise BugError("a row event names no table", code="RPL-9005", position=str(event.offset))
        ordinal, self.events = self.events, self.events + 1
        self._waiting.setdefault((event.table, event.is_snapshot), []).append((ordinal, event))
        self._count += 1

    def restart(self) -> None:
        """A commit was emitted: ordinals start at 0 again."""
        self.events, self._is_numbered = 0, False

    def take(self) -> Iterator[ChangeBatch]:
        """The rows gathered so far, a batch a table; they are forgotten here."""
        waiting, self._waiting, self._count = self._waiting, {}, 0
        for (table, is_snapshot), rows in waiting.items():
            if table in self._schemas:
                yield _batch(self._schemas[table], rows, is_snapshot)


def _batch(schema: TableSchema, rows: list[tuple[int, DMLEvent]], is_snapshot: bool) -> ChangeBatch:
    events = [event for _, event in rows]
    before = [None if e.before is None else dict(e.before) for e in events]
    for index, event in enumerate(events):
        if event.operation is DMLOperation.DELETE and event.before is None:
            before[index] = dict(event.row)
    unchanged = {name: pa.array([name in e.unchanged for e in events]) for e in events for name in e.unchanged}
    struct = schema.struct
    return ChangeBatch(
        schema,
        pa.array([int(e.operation) for e in events], pa.int8()),
        pa.array([dict(e.row) for e in events], struct),
        pa.array(before, struct) if any(b is not None for b in before) else None,
        np.array([ordinal for ordinal, _ in rows], np.int64),
        unchanged,
        before_is_full=not schema.primary_key,
        is_snapshot=is_snapshot,
    )
