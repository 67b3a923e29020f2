"""Parses row images column by column: for thousands of rows at once, where each value begins and ends.

A row image is a 16-bit column count and, per column, a kind byte: `n` NULL, `u` unchanged (not sent), `t` text with a
32-bit length. One pass over the columns advances the positions in all rows together, so that the work in Python grows
with the columns, not with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s, binary_ranges
from replicator_sdk.errors import BugError
from replicator_source_postgres.pgoutput.window import int32_at

_NULL, _UNCHANGED, _TEXT = b"n"[0], b"u"[0], b"t"[0]


@dataclass(frozen=True, slots=True)
class Cells:
    """One column over the rows of a walk: where its values begin and end.

    Attributes:
        start: Where each value begins; ascending over the rows.
        end: Where it ends.
        present: Whether there is a value (neither NULL nor unchanged).
        unchanged: Whether the value was not sent; None when all were.
    """

    start: Int64s
    end: Int64s
    present: Bools
    unchanged: Bools | None


def walk(data: Bytes, at: Int64s, columns: int, *, table: str) -> tuple[list[Cells], Int64s]:
    """The cells of the row images at `at` (ascending), and where each image ends.

    Raises:
        BugError: When an image has another number of columns or an unknown kind of value.
    """
    counts = (data.take(at).astype(np.int64) << 8) | data.take(at + 1)
    if (counts != columns).any():
        raise _broken(table, "a row with another number of columns than its relation")
    place = at + 2
    cells = []
    for _ in range(columns):
        kind = data.take(place)
        present = kind == _TEXT
        absent = None
        if not present.all():
            absent = kind == _UNCHANGED
            if not (present | absent | (kind == _NULL)).all():
                raise _broken(table, "a value of unknown kind")
            absent = absent if absent.any() else None
        start = place + np.where(present, 5, 1)
        end = start + np.where(present, int32_at(data, place + 1), 0)
        cells.append(Cells(start, end, present, absent))
        place = end
    return cells, place


def _broken(table: str, what: str) -> BugError:
    return BugError(
        f"the log holds {what}",
        code="RPL-3002",
        table=table,
        hint="report it with the server's version; the log was not read past this change",
    )


def gather(data: pa.Buffer, cells: Cells, rows: Int64s | None, count: int) -> pa.BinaryArray:
    """The values of one column as bytes.

    Args:
        data: The window's buffer.
        cells: One column of a walk.
        rows: To which of `count` rows each walked row belongs, ascending; None when they are the same rows.
        count: Length of the result; rows without a cell are NULL.
    """
    if rows is None:
        return binary_ranges(data, cells.start, cells.end, present=cells.present)
    ranks, present = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    ranks[rows] = np.arange(len(rows))
    present[rows] = cells.present
    return binary_ranges(data, cells.start, cells.end, present=present, ranks=ranks)
