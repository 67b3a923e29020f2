"""Turns events into one change batch per table; the entry point of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Int64s
from replicator_sdk.batch import ChangeBatch
from replicator_sdk.errors import BugError
from replicator_source_mysql.binlog.batches.batch_builder import make_batch
from replicator_source_mysql.binlog.batches.table_plan import Reading, TablePlan
from replicator_source_mysql.binlog.event import ROWS, Events, Kind, words_at
from replicator_source_mysql.binlog.rows.row_events import Run, count_rows, walk_rows
from replicator_source_mysql.binlog.rows.row_layout import Shapes
from replicator_source_mysql.binlog.rows.table_map import TableMap, TableMaps

PlanTable = Callable[[TableMap], TablePlan | None]
"""Returns how to decode a table; None when the table is not captured."""

_NO_TABLE = 0xFFFFFF
"""Id in a row event without rows that only ends a statement."""
_LIMIT = 10_000


@dataclass(slots=True)
class _Walked:
    """Runs that may share a batch."""

    reading: Reading
    runs: list[Run]


class Decoder:
    """Decodes one connection's stream; used by one thread.

    Tables are announced before the rows of each statement and remembered here, also over several calls. Ordinals count the
    rows of all tables, captured or not, so that an edit of the selection renumbers nothing.

    Args:
        plan: Asked once for each new announcement of a table.

    Attributes:
        ranks: Once `decode` is exhausted: for each of its events how many rows are before it, counted on from
            `first_ordinal`; one longer than the events.
    """

    ranks: Int64s

    def __init__(self, plan: PlanTable) -> None:
        self._plan = plan
        self._maps = TableMaps()
        self._tables: dict[int, TableMap] = {}
        self._readings: dict[TableMap, Reading | None] = {}
        self._uncaptured: dict[TableMap, Shapes] = {}

    def decode(self, events: Events, first_ordinal: int) -> Iterator[ChangeBatch]:
        """The changes in `events`, one batch per table and schema, each in log order.

        Args:
            events: The next events; those without rows are passed over.
            first_ordinal: The ordinal of the first change.

        Raises:
            BugError: On an event that does not keep to the format, a row of a table that was not announced, or a table
                that is not as it is known.
            NeedsUserError: When the images lack what cannot be known.
            DataError: On a value outside its type's range, when the policy is to fail.
        """
        ranks = [np.array([first_ordinal], np.int64)]
        for begin, end, announced in self._announcements(events):
            part = events.part(begin, end)
            self._tables |= announced
            walked, counts = self._walk(part)
            first = int(ranks[-1][-1]) + np.cumsum(counts) - counts
            ranks.append(first + counts)
            for group in walked:
                yield make_batch(part, group.reading, group.runs, first)
        self.ranks = np.concatenate(ranks)

    def forget(self) -> None:
        """Drop what is known of tables: a definition has changed, or the stream was opened again.

        Announcements stay known as such, so that the rest of a transaction can still be read.
        """
        self._readings.clear()

    def _announcements(self, events: Events) -> list[tuple[int, int, dict[int, TableMap]]]:
        """The events in stretches in which every id has one meaning, with the tables announced in each."""
        stretches = []
        begin, announced, known = 0, dict[int, TableMap](), dict[int, TableMap]()
        for index in events.where((Kind.TABLE_MAP,)).tolist():
            table = self._maps.learn(events, index)
            if known.get(table.table_id, self._tables.get(table.table_id, table)) is not table:
                stretches.append((begin, index, announced))
                begin, announced = index, {}
            announced[table.table_id] = known[table.table_id] = table
        return [*stretches, (begin, len(events), announced)]

    def _walk(self, events: Events) -> tuple[list[_Walked], Int64s]:
        """The runs by what may share a batch, and how many rows each event has."""
        counts = np.zeros(len(events), np.int64)
        groups: dict[tuple[object, ...], _Walked] = {}
        index = events.where(ROWS)
        ids = words_at(events.data, events.start[index], 6)
        for table_id in np.unique(ids).tolist():
            chosen = index[ids == table_id]
            reading = self._reading(table_id, events, int(chosen[0]))
            if reading is None:
                counts[chosen] = self._count(table_id, events, chosen)
                continue
            group = groups.setdefault(reading.group, _Walked(reading, []))
            for run in walk_rows(events, chosen, reading.table, reading.shapes):
                counts[run.index] = run.counts
                group.runs.append(run)
        return [group for group in groups.values() if group.runs], counts

    def _count(self, table_id: int, events: Events, chosen: Int64s) -> Int64s | int:
        """How many rows events of a table have that is not captured."""
        table = self._tables.get(table_id)
        if table is None:
            return 0
        if table not in self._uncaptured:
            if len(self._uncaptured) >= _LIMIT:
                self._uncaptured.clear()
            self._uncaptured[table] = Shapes(table)
        return count_rows(events, chosen, table, self._uncaptured[table])

    def _reading(self, table_id: int, events: Events, index: int) -> Reading | None:
        table = self._tables.get(table_id)
        if table is None:
            if table_id == _NO_TABLE:
                return None
            raise BugError(
                f"the log holds rows of table id {table_id}, which it did not announce",
                code="RPL-3715",
                position=str(events.place(index)),
                hint="reading must begin between two transactions; start again from the saved offset",
            )
        if table not in self._readings:
            if len(self._readings) >= _LIMIT:
                self._readings.clear()
            plan = self._plan(table)
            self._readings[table] = None if plan is None else Reading(plan, table, str(events.place(index)))
        return self._readings[table]


__all__ = ["Decoder", "PlanTable", "TablePlan"]
