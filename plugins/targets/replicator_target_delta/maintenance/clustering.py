"""Which files to put in order together, so that few files may hold any one key.

Rows arrive in the order of time. Where their keys are random, each file's bounds span all keys and every file has to be
opened for each. So four files whose bounds overlap become four that follow one another, each a quarter as wide. Their
*level*, a tag in the log, is one higher, and only files of one level are put in order together: a row is written once a
level, which for 50,000 files makes eight times, and of each level at most three files may hold a key. Keys that arrive
in order do not overlap, and nothing is written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.table_files.overlaps import deepest, narrowest
from replicator_target_delta.file_index.bounds import ColumnBounds
from replicator_target_delta.file_index.file_index import FileIndex, LiveFile, Part, Slot
from replicator_target_delta.file_index.sort_words import Words, as_texts, is_ordered

Int64s = npt.NDArray[np.int64]
Texts = npt.NDArray[np.bytes_]
TOGETHER: Final = 4
HIGHEST_LEVEL: Final = 12  # 16 million files; where bounds cannot be made narrower, writing again ends there
_COLUMNS: Final = 2
_PART_BITS: Final = 32
_ROW_MASK: Final = (1 << _PART_BITS) - 1


@dataclass(frozen=True, slots=True)
class Ranges:
    """Which keys files may hold, as whole numbers in the order of the keys.

    Attributes:
        slots: Where each file is in the index: the number of the part, then the row.
        levels: Its level.
        low: Of its smallest key; of keys that may be equal the numbers are.
        high: Of its largest key.
    """

    slots: Int64s
    levels: Int64s
    low: Int64s
    high: Int64s

    def without(self, files: Sequence[LiveFile]) -> Ranges:
        """The ranges of the other files."""
        kept = np.isin(self.slots, _codes(files), invert=True)
        return Ranges(self.slots[kept], self.levels[kept], self.low[kept], self.high[kept])

    def in_order(self, files: Sequence[LiveFile]) -> list[LiveFile]:
        """`files` by level, then by their smallest key; of a level those without a range first, as they were."""
        here = np.isin(self.slots, _codes(files))
        lows = dict(zip(self.slots[here].tolist(), self.low[here].tolist(), strict=True))
        return sorted(files, key=lambda file: (file.level, lows.get(_code(file), -1)))


def _code(file: LiveFile) -> int:
    return file.place.part << _PART_BITS | file.place.row


def _codes(files: Sequence[LiveFile]) -> Int64s:
    return np.array([_code(file) for file in files], np.int64)


def key_ranges(files: FileIndex, key: Sequence[pa.Field]) -> Ranges:
    """The ranges of all files whose bounds are known, by the first two columns of the key that have bounds.

    Of files that hold one value of the first column the second one counts.
    """
    columns = [field for field in key if is_ordered(field.type)][:_COLUMNS]
    slots, levels, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)], []
    for number, part in enumerate(files.parts if columns else ()):
        bounds = [found for column in columns if (found := part.segment.bounds(column)) is not None]
        rows = _known(part, bounds)
        slots.append(rows + (number << _PART_BITS))
        levels.append(part.segment.levels[rows].astype(np.int64))
        ends.append([(_texts(b.low[rows], b.prefix), _texts(b.high[rows], b.prefix)) for b in bounds])
    low, high = _numbered([list(column) for column in zip(*ends, strict=True)])
    return Ranges(np.concatenate(slots), np.concatenate(levels), low, high)


def _known(part: Part, bounds: Sequence[ColumnBounds]) -> Int64s:
    rows = part.live_rows
    for one in bounds:
        rows = rows[~one.unknown[rows] & (one.low[rows, 0] <= one.high[rows, 0])]
    return rows


def _texts(words: Words, prefix: bytes) -> Texts:
    texts: Texts = np.strings.add(np.bytes_(prefix), as_texts(words)) if prefix else as_texts(words)
    return texts


def _numbered(columns: list[list[tuple[Texts, Texts]]]) -> tuple[Int64s, Int64s]:
    """Low and high ends as numbers: of the first column, then of the second where the first has one value only."""
    low = high = np.empty(0, np.int64)
    for position, parts in enumerate(columns):
        first, last = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        ranks = np.unique(np.concatenate([first, last]), return_inverse=True)[1].astype(np.int64)
        first_rank, last_rank = ranks[: len(first)], ranks[len(first) :]
        if position == 0:
            low, high = first_rank, last_rank
            continue
        one, many = low == high, len(ranks) + 1
        low = low * many + np.where(one, first_rank, 0)
        high = high * many + np.where(one, last_rank, many - 1)
    return low, high


def plan_merges(files: FileIndex, ranges: Ranges, most: int, largest: int) -> list[list[LiveFile]]:
    """Groups of files of one level to put in order together, those first where most files may hold a key.

    Args:
        files: The table's files.
        ranges: Of those that may be taken.
        most: How many groups at most.
        largest: How many bytes a group has at most; one that has more is left out.
    """
    free = ranges.levels < HIGHEST_LEVEL
    groups: list[list[LiveFile]] = []
    while len(groups) < most and (chosen := _deepest(ranges, free)) is not None:
        free[chosen] = False
        codes = ranges.slots[chosen].tolist()
        group = [files.file_at(Slot(code >> _PART_BITS, code & _ROW_MASK)) for code in codes]
        if sum(file.size for file in group) <= largest:
            groups.append(group)
    return groups


def _deepest(ranges: Ranges, free: npt.NDArray[np.bool_]) -> Int64s | None:
    """Files of one level that may all hold one key, from where the most such files are; None where there are too few."""
    best: tuple[int, Any] = (TOGETHER - 1, None)
    for level in np.unique(ranges.levels[free]).tolist():
        here = np.flatnonzero(free & (ranges.levels == level))
        covering = here[deepest(ranges.low[here], ranges.high[here])]
        if len(covering) > best[0]:
            best = len(covering), covering
    if best[1] is None:
        return None
    found: Int64s = best[1][narrowest(ranges.low[best[1]], ranges.high[best[1]], TOGETHER)]
    return found
