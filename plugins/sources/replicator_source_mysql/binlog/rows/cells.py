"""Values of row images by columns: where each begins, how long it is, whether there is one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s
from replicator_source_mysql.binlog.event import words_at
from replicator_source_mysql.binlog.rows.row_layout import ImageShape
from replicator_source_mysql.binlog.rows.row_offsets import after_partial_options


@dataclass(frozen=True, slots=True)
class Cells:
    """One column over the rows of some images.

    Attributes:
        start: Where each value begins, after its length.
        length: Its bytes.
        present: Whether it is not NULL; None when none is NULL. Where it is NULL, the other two mean nothing.
    """

    start: Int64s
    length: Int64s
    present: Bools | None


def read_cells(data: Bytes, at: Int64s, shape: ImageShape, wanted: Collection[int]) -> dict[int, Cells]:
    """The cells of the wanted columns, by rank in the table; a column the images do not have is left out.

    Args:
        data: The buffer.
        at: Where the images begin, checked to be whole (see `find_images`).
        shape: Their layout.
        wanted: Ranks of columns.
    """
    left = sum(column in wanted for column in shape.columns)
    base = after_partial_options(data, at, shape)
    nulls = [data.take(base + rank, mode="clip") for rank in range(shape.null_bytes)]
    has_nulls = [bool(byte.any()) for byte in nulls]
    fixed = shape.null_bytes
    cells: dict[int, Cells] = {}
    for rank, (column, form) in enumerate(zip(shape.columns, shape.physical, strict=True)):
        if left == 0:
            break
        byte, bit = divmod(rank, 8)
        present = _present(nulls[byte], bit) if has_nulls[byte] else None
        start, length = base + fixed, np.broadcast_to(np.int64(form.width), at.shape)
        if form.prefix:
            length = words_at(data, start, form.prefix)
            start = start + form.prefix
            base, fixed = _end_of(start, length, present, base + fixed)
        elif present is None:
            fixed += form.width
        else:
            base = base + present * np.int64(form.width)
        if column in wanted:
            left -= 1
            cells[column] = Cells(start, length, present)
    return cells


def _present(byte: Bytes, bit: int) -> Bools | None:
    is_null = (byte >> bit & 1).astype(np.bool_)
    return ~is_null if is_null.any() else None


def _end_of(start: Int64s, length: Int64s, present: Bools | None, absent: Int64s) -> tuple[Int64s, int]:
    end = start + length
    return (end if present is None else np.where(present, end, absent)), 0


def partial_flags(data: Bytes, at: Int64s, shape: ImageShape, document: int) -> Bools | None:
    """Whether each after image of a partial update has only the differences of one JSON column.

    Args:
        data: The buffer.
        at: Where the images begin.
        shape: Their layout.
        document: Rank of the column among the table's JSON columns.
    """
    if shape.partial_bytes is None:
        return None
    has_bits = data.take(at) & 1
    byte, bit = divmod(document, 8)
    flags = (data.take(at + 1 + byte, mode="clip") >> bit & 1 & has_bits).astype(np.bool_)
    return flags if flags.any() else None
