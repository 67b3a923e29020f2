"""Where each row image of many events begins.

A row's length shows only when the row before it is walked, so the events are lanes: one step walks one row of every lane
together. Few lanes with many rows are walked one row after another instead, each in a few operations; rows of fixed
widths need no walk at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bytes, Int64s
from replicator_source_mysql.binlog.event import words_at
from replicator_source_mysql.binlog.rows.row_layout import ImageShape, Steps

_FEW = 12
"""Below so many lanes a step over all of them costs more than their rows one by one."""

Sides = Sequence[ImageShape]
Found = tuple[list[Int64s], Int64s]
"""For each side the beginnings of its images, lane by lane; how many rows each lane has."""


class WalkError(Exception):
    """A lane does not end where its rows end; `lane` is its rank."""

    def __init__(self, lane: int) -> None:
        super().__init__(lane)
        self.lane = lane


def find_images(data: Bytes, start: Int64s, end: Int64s, sides: Sides) -> Found:
    """The beginnings of all images.

    Args:
        data: The buffer.
        start: Where the rows of each lane begin.
        end: Where they end.
        sides: The images of a row: one, or the one before and the one after.

    Raises:
        WalkError: When the rows of a lane do not end exactly where it ends.
    """
    if (end < start).any():
        raise WalkError(int(np.flatnonzero(end < start)[0]))
    if not sum(shape.null_bytes for shape in sides):
        raise WalkError(0)  # images without columns: their number cannot be known
    found = _fixed(data, start, end, sides)
    if found is not None:
        return found
    walk = _Walk(data, start, end, sides)
    walk.run()
    return walk.found()


def _fixed(data: Bytes, start: Int64s, end: Int64s, sides: Sides) -> Found | None:
    """Rows of fixed widths with the same columns NULL in all of them; None when they are not such rows."""
    offsets, patterns, stride = [], [], 0
    for shape in sides:
        nulls = data[start[0] + stride : start[0] + stride + shape.null_bytes].tobytes()
        if shape.partial_bytes is not None or len(nulls) < shape.null_bytes:
            return None
        variable, width = shape.steps(nulls)
        if variable:
            return None
        offsets.append(stride)
        patterns.append(nulls)
        stride += shape.null_bytes + width
    counts, left = np.divmod(end - start, stride)
    if left.any():
        return None
    first = np.cumsum(counts) - counts
    rows = np.repeat(start - first * stride, counts) + np.arange(int(counts.sum()), dtype=np.int64) * stride
    for offset, nulls in zip(offsets, patterns, strict=True):
        for rank, byte in enumerate(nulls):
            if (data.take(rows + (offset + rank), mode="clip") != byte).any():
                return None
    return [rows + offset for offset in offsets], counts


class _Walk:
    def __init__(self, data: Bytes, start: Int64s, end: Int64s, sides: Sides) -> None:
        self._data, self._start, self._end, self._sides = data, start, end, sides
        self._lanes: list[Int64s] = []
        self._ranks: list[Int64s] = []
        self._found: list[list[Int64s]] = [[] for _ in sides]

    def run(self) -> None:
        lanes, at, end = np.arange(len(self._start)), self._start.copy(), self._end
        step = 0
        while True:
            more = at < end
            if not more.all():
                wrong = np.flatnonzero(at > end)
                if len(wrong):
                    raise WalkError(int(lanes[wrong[0]]))
                lanes, at, end = lanes[more], at[more], end[more]
            if len(lanes) <= _FEW:
                break
            self._lanes.append(lanes)
            self._ranks.append(np.full(len(lanes), step))
            for rank, shape in enumerate(self._sides):
                self._found[rank].append(at)
                at = _next(self._data, at, shape)
            step += 1
        for lane, place, stop in zip(lanes.tolist(), at.tolist(), end.tolist(), strict=True):
            self._run_lane(lane, place, stop, step)

    def _run_lane(self, lane: int, start: int, end: int, step: int) -> None:
        """The rest of one lane, row by row."""
        raw = self._data[start:end].tobytes()
        found: list[list[int]] = [[] for _ in self._sides]
        if len(self._sides) == 1 and self._sides[0].partial_bytes is None:
            ended = _scan_single(raw, self._sides[0], found[0])
        else:
            ended = _scan(raw, self._sides, found)
        if ended != len(raw):
            raise WalkError(lane)
        self._lanes.append(np.full(len(found[0]), lane))
        self._ranks.append(np.arange(step, step + len(found[0])))
        for rank, places in enumerate(found):
            self._found[rank].append(np.array(places, np.int64) + start)

    def found(self) -> Found:
        """The beginnings in the order of lanes, and how many rows each has."""
        lanes, ranks = np.concatenate(self._lanes or [_NONE]), np.concatenate(self._ranks or [_NONE])
        counts = np.bincount(lanes, minlength=len(self._start)).astype(np.int64)
        place = (np.cumsum(counts) - counts)[lanes] + ranks
        sides = []
        for parts in self._found:
            ordered = np.empty(len(lanes), np.int64)
            ordered[place] = np.concatenate(parts or [_NONE])
            sides.append(ordered)
        return sides, counts


_NONE = np.zeros(0, np.int64)


def _next(data: Bytes, at: Int64s, shape: ImageShape) -> Int64s:
    """Where the images at `at` end."""
    at = after_partial_options(data, at, shape)
    nulls = [data.take(at + rank, mode="clip") for rank in range(shape.null_bytes)]
    at = at + shape.null_bytes
    if all((byte == byte[0]).all() for byte in nulls):
        return _along(data, at, shape.steps(bytes(int(byte[0]) for byte in nulls)))
    for segment in shape.segments:
        for byte, widths in segment.gaps:
            at = at + widths.take(nulls[byte])
        if segment.prefix:
            present = nulls[segment.byte] >> segment.bit & 1 ^ 1
            at = at + (words_at(data, at, segment.prefix) + segment.prefix) * present
    return at


def _along(data: Bytes, at: Int64s, steps: Steps) -> Int64s:
    """The same, when all of them have the same columns NULL."""
    gap = 0
    for before, prefix in steps[0]:
        at = at + (gap + before)
        at = at + words_at(data, at, prefix)
        gap = prefix
    return at + (gap + steps[1])


def after_partial_options(data: Bytes, at: Int64s, shape: ImageShape) -> Int64s:
    """The position after the options and bits of a partial update's after image; `at` for every other image."""
    if shape.partial_bytes is None:
        return at
    has_bits = data.take(at, mode="clip") & 1
    return np.asarray(at + 1 + has_bits.astype(np.int64) * shape.partial_bytes)


def _scan_single(raw: bytes, shape: ImageShape, found: list[int]) -> int:
    """Walk the images of one lane; where the last ends. The plain case of `_scan`, without its inner loop."""
    at, size, width, patterns, append = 0, len(raw), shape.null_bytes, shape.steps, found.append
    try:
        while at < size:
            append(at)
            steps, tail = patterns(raw[at : at + width])
            at += width
            for gap, prefix in steps:
                at += gap
                if prefix == 1:
                    at += raw[at] + 1
                elif prefix == 2:
                    at += (raw[at] | raw[at + 1] << 8) + 2
                else:
                    at += int.from_bytes(raw[at : at + prefix], "little") + prefix
            at += tail
    except IndexError:
        return -1
    return at


def _scan(raw: bytes, sides: Sides, found: list[list[int]]) -> int:
    """Walk the rows of one lane, image by image; where the last ends."""
    at, size = 0, len(raw)
    try:
        while at < size:
            for shape, places in zip(sides, found, strict=True):
                places.append(at)
                if shape.partial_bytes is not None:
                    at += 1 + shape.partial_bytes * (raw[at] & 1)
                steps, tail = shape.steps(raw[at : at + shape.null_bytes])
                at += shape.null_bytes
                for gap, prefix in steps:
                    at += gap
                    if prefix == 1:
                        at += raw[at] + 1
                    elif prefix == 2:
                        at += (raw[at] | raw[at + 1] << 8) + 2
                    else:
                        at += int.from_bytes(raw[at : at + prefix], "little") + prefix
                at += tail
    except IndexError:
        return -1
    return at
