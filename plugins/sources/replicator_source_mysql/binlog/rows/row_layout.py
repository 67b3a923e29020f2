"""The layout of row images: which columns they have, and where their values are, given which are NULL.

An image is a bit per column it has (set: NULL), then the values of the others one after another: fixed widths, or a length
and so many bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Int64s
from replicator_source_mysql.binlog.rows.storage_types import FieldType, StorageType
from replicator_source_mysql.binlog.rows.table_map import TableMap

Steps = tuple[tuple[tuple[int, int], ...], int]
"""For each value of variable width the bytes up to its length and the length's size; then the bytes after the last."""

_PATTERNS = 4096


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of fixed widths and the value of variable width after it, none after the last stretch.

    Attributes:
        gaps: For each byte of the NULL bits that matters, how wide the stretch is for each of its 256 values.
        byte: Which byte of the NULL bits has the value's.
        bit: Which bit in it.
        prefix: Bytes of the value's length; 0 after the last stretch.
    """

    gaps: tuple[tuple[int, Int64s], ...]
    byte: int = 0
    bit: int = 0
    prefix: int = 0


@dataclass(slots=True, eq=False)
class ImageShape:
    """The layout of the images of one side of one kind of event.

    Attributes:
        columns: Ranks in the table of the columns the images have, ascending.
        physical: How their values are stored.
        null_bytes: Bytes of the NULL bits.
        partial_bytes: For the after image of a partial update: bytes of the bits for its JSON columns that follow the
            options' byte when that says so; None for every other image.
        segments: The layout for any pattern of NULLs.
    """

    columns: tuple[int, ...]
    physical: tuple[StorageType, ...]
    partial_bytes: int | None = None
    null_bytes: int = field(init=False)
    segments: tuple[Segment, ...] = field(init=False)
    _patterns: dict[bytes, Steps] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.null_bytes = (len(self.columns) + 7) // 8
        self.segments = tuple(self._segments())

    def steps(self, nulls: bytes) -> Steps:
        """The layout for one pattern of NULLs.

        Raises:
            IndexError: When there are too few NULL bits, at the end of a broken event.
        """
        found = self._patterns.get(nulls)
        if found is None:
            if len(self._patterns) >= _PATTERNS:
                self._patterns.clear()
            found = self._patterns[nulls] = self._make_steps(nulls)
        return found

    def _make_steps(self, nulls: bytes) -> Steps:
        if len(nulls) < self.null_bytes:
            raise IndexError
        bits = int.from_bytes(nulls, "little")
        steps, gap = [], 0
        for rank, form in enumerate(self.physical):
            if bits >> rank & 1:
                continue
            if form.prefix:
                steps.append((gap, form.prefix))
                gap = 0
            else:
                gap += form.width
        return tuple(steps), gap

    def _segments(self) -> list[Segment]:
        segments = []
        widths: dict[int, Int64s] = {}
        for rank, form in enumerate(self.physical):
            byte, bit = divmod(rank, 8)
            if form.prefix:
                segments.append(Segment(tuple(widths.items()), byte, bit, form.prefix))
                widths = {}
            elif form.width:
                table = widths.setdefault(byte, np.zeros(256, np.int64))
                table += np.where(np.arange(256) >> bit & 1, 0, form.width)
        return [*segments, Segment(tuple(widths.items()))]


class Shapes:
    """The layouts a table's images have, by which columns they have; the usual ones are built once."""

    def __init__(self, table: TableMap) -> None:
        self._table = table
        self._made: dict[tuple[bytes, bool], ImageShape] = {}

    def shape(self, present: bytes, *, is_partial: bool = False) -> ImageShape:
        """The layout of images with the columns whose bits are set in `present`."""
        made = self._made.get((present, is_partial))
        if made is None:
            if len(self._made) >= _PATTERNS:
                self._made.clear()
            made = self._made[present, is_partial] = self._make(present, is_partial=is_partial)
        return made

    def _make(self, present: bytes, *, is_partial: bool) -> ImageShape:
        bits = int.from_bytes(present, "little")
        columns = tuple(rank for rank in range(len(self._table.kinds)) if bits >> rank & 1)
        documents = sum(kind == FieldType.JSON for kind in self._table.kinds)
        return ImageShape(
            columns,
            tuple(self._table.physical[rank] for rank in columns),
            (documents + 7) // 8 if is_partial else None,
        )
