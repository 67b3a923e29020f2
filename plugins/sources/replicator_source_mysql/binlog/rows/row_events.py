"""Walks row events: for each run of events of one table and one kind, where the rows' images are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s
from replicator_sdk.errors import BugError
from replicator_source_mysql.binlog.event import DELETES, SECOND_VERSION, UPDATES, Events, Kind
from replicator_source_mysql.binlog.event_errors import broken_event
from replicator_source_mysql.binlog.rows.cells import Cells, partial_flags, read_cells
from replicator_source_mysql.binlog.rows.row_layout import ImageShape, Shapes
from replicator_source_mysql.binlog.rows.row_offsets import WalkError, find_images
from replicator_source_mysql.binlog.rows.table_map import TableMap

INSERT, UPDATE, DELETE = 1, 2, 3
_HEADER = 8


@dataclass(frozen=True, slots=True)
class Run:
    """Rows of some events of one table whose images have the same columns.

    Attributes:
        events: What they are events of.
        op: INSERT, UPDATE or DELETE.
        index: Ranks of the events, ascending.
        counts: How many rows each of them has.
        before: Layout and beginnings of the images before; None for an INSERT.
        after: Layout and beginnings of the images after; None for a DELETE.
    """

    events: Events
    op: int
    index: Int64s
    counts: Int64s
    before: tuple[ImageShape, Int64s] | None
    after: tuple[ImageShape, Int64s] | None

    def ordinals(self, first: Int64s) -> Int64s:
        """The rank of each row, when `first` has that of each event's first row."""
        within = np.cumsum(self.counts) - self.counts
        total = int(self.counts.sum())
        return np.repeat(first[self.index] - within, self.counts) + np.arange(total, dtype=np.int64)

    def cells_before(self, wanted: Collection[int]) -> dict[int, Cells]:
        """Cells of the images before; none for an INSERT."""
        return read_cells(self.events.data, self.before[1], self.before[0], wanted) if self.before else {}

    def cells_after(self, wanted: Collection[int]) -> dict[int, Cells]:
        """Cells of the images after; none for a DELETE."""
        return read_cells(self.events.data, self.after[1], self.after[0], wanted) if self.after else {}

    def is_diff(self, document: int) -> Bools | None:
        """Whether each image after holds only what changed in the table's `document`-th JSON column; None for no row."""
        if self.after is None:
            return None
        return partial_flags(self.events.data, self.after[1], self.after[0], document)


def walk_rows(events: Events, index: Int64s, table: TableMap, shapes: Shapes) -> Iterator[Run]:
    """Walk the row events at `index` (ascending), all of `table`.

    Raises:
        BugError: When an event does not keep to its format: its rows must end exactly where it ends.
    """
    for kind in np.unique(events.kind[index]).tolist():
        chosen = index[events.kind[index] == kind]
        bitmaps, start = _bitmaps(events, chosen, table, Kind(kind))
        for lanes in _alike(bitmaps):
            yield _walk_run(events, Kind(kind), chosen[lanes], start[lanes], bitmaps[lanes[0]].tobytes(), table, shapes)


def count_rows(events: Events, index: Int64s, table: TableMap, shapes: Shapes) -> Int64s:
    """How many rows each of the row events at `index` (ascending) has, all of `table`.

    An event that does not keep to its format has none, whichever events are counted with it: a table that is not captured
    stops no other.
    """
    counts = np.zeros(len(events), np.int64)
    try:
        for run in walk_rows(events, index, table, shapes):
            counts[run.index] = run.counts
    except BugError:
        counts[index] = [_count_alone(events, index[rank : rank + 1], table, shapes) for rank in range(len(index))]
    return counts[index]


def _count_alone(events: Events, index: Int64s, table: TableMap, shapes: Shapes) -> int:
    try:
        return sum(int(run.counts.sum()) for run in walk_rows(events, index, table, shapes))
    except BugError:
        return 0


def _bitmaps(events: Events, index: Int64s, table: TableMap, kind: Kind) -> tuple[np.ndarray, Int64s]:
    """The bits of the columns that the images have, a row per event, and where the rows begin.

    Table id (6), flags (2), in the second version the length of extra data with its own two bytes, the number of columns,
    and a bit per column, twice for an UPDATE.
    """
    data, at = events.data, events.start[index] + _HEADER
    if kind in SECOND_VERSION:
        at = at + data.take(at, mode="clip") + (data.take(at + 1, mode="clip").astype(np.int64) << 8)
    count = len(table.kinds)
    width = bytes([count]) if count < 0xFB else b"\xfc" + count.to_bytes(2, "little")
    size = (count + 7) // 8 * (2 if kind in UPDATES else 1)
    start = at + len(width) + size
    short = start > events.end[index]
    for rank, byte in enumerate(width):
        short |= data.take(at + rank, mode="clip") != byte
    if short.any():
        raise _broken(events, int(index[np.flatnonzero(short)[0]]), table)
    matrix = data.take((at + len(width))[:, None] + np.arange(size), mode="clip")
    return matrix, start


def _alike(bitmaps: np.ndarray) -> list[Int64s]:
    """Groups of ranks of equal rows."""
    if (bitmaps == bitmaps[0]).all():
        return [np.arange(len(bitmaps))]
    _, group = np.unique(bitmaps, axis=0, return_inverse=True)
    group = group.ravel()
    return [np.flatnonzero(group == rank) for rank in range(int(group.max()) + 1)]


def _walk_run(
    events: Events, kind: Kind, index: Int64s, start: Int64s, present: bytes, table: TableMap, shapes: Shapes
) -> Run:
    is_update = kind in UPDATES
    half = len(present) // 2 if is_update else len(present)
    sides = [shapes.shape(present[:half])]
    if is_update:
        sides.append(shapes.shape(present[half:], is_partial=kind == Kind.PARTIAL_UPDATE_ROWS))
    try:
        found, counts = find_images(events.data, start, events.end[index], sides)
    except WalkError as err:
        raise _broken(events, int(index[err.lane]), table) from None
    images = list(zip(sides, found, strict=True))
    if is_update:
        return Run(events, UPDATE, index, counts, images[0], images[1])
    if kind in DELETES:
        return Run(events, DELETE, index, counts, images[0], None)
    return Run(events, INSERT, index, counts, None, images[0])


def _broken(events: Events, index: int, table: TableMap) -> Exception:
    return broken_event("a row event that does not keep to the format", str(events.place(index)), str(table))
