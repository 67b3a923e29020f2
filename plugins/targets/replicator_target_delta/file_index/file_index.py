"""The live files of a table at one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.discovery.table_storage import TableStorage
from replicator_target_delta.file_index.actions import to_adds, to_columns
from replicator_target_delta.file_index.segment import Segment
from replicator_target_delta.files.live_files import DataFile

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SEGMENT_FILES: Final = 4096
_SMALL_PARTS: Final = 4  # so many of a size are put together


class Slot(NamedTuple):
    """Where a file is in one version of an index."""

    part: int
    row: int


@dataclass(frozen=True, slots=True)
class LiveFile:
    """What finding rows in a file needs.

    Attributes:
        path: In the log.
        size: In bytes.
        rows: In it, gone ones included; -1 unknown.
        vector: The descriptor of its deletion vector.
        level: How often its rows were put in order with those of others.
        place: In the index that it is from.
    """

    path: str
    size: int
    rows: int
    vector: dict[str, Any] | None
    level: int
    place: Slot

    @property
    def location(self) -> str:
        """The path as a file name; the log writes paths as URIs."""
        return unquote(self.path)


@dataclass(frozen=True)
class Part:
    """A segment, and which of its files are live.

    Attributes:
        segment: The files.
        live: For each whether it is live; None when all are.
    """

    segment: Segment
    live: Bools | None = None
    count: int = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.segment) if self.live is None else int(np.count_nonzero(self.live))
        object.__setattr__(self, "count", count)

    @property
    def live_rows(self) -> Int64s:
        """The places of its live files."""
        return np.arange(len(self.segment)) if self.live is None else np.flatnonzero(self.live)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its live files."""
        return self._sum(self.segment.sizes)

    @cached_property
    def gone(self) -> int:
        """Rows of its live files that are gone."""
        return 0 if self.segment.vectors is None else self._sum(self.segment.gone)

    @cached_property
    def _rows(self) -> int:
        rows = self.segment.rows if self.live is None else self.segment.rows[self.live]
        return -1 if (rows < 0).any() else int(rows.sum())

    @property
    def rows(self) -> int | None:
        """Rows in its live files, gone ones included; None where that is not known."""
        return None if self.segment.rows_if_known is None or self._rows < 0 else self._rows

    def _sum(self, values: Int64s) -> int:
        return int((values if self.live is None else values[self.live]).sum())

    def without(self, rows: Sequence[int]) -> Part:
        """The part once the files at `rows` are gone."""
        live = np.ones(len(self.segment), np.bool_) if self.live is None else self.live.copy()
        live[list(rows)] = False
        return Part(self.segment, live)


class FileIndex:
    """A version's files; never changes, so that any number of threads and versions share most of it.

    Takes about 130 bytes of memory a file, in segments of some thousand files; a commit makes new what it changes, which is
    its own files and, now and then, a few small segments that are put together. It lives as long as the version is
    remembered. A pickled copy serves to look for keys only (`Segment`).
    """

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self.parts = tuple(parts)
        self._count = sum(part.count for part in self.parts)

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> FileIndex:
        """The index of the files of `batches`, as `to_columns` makes them."""
        return cls(Part(Segment(columns)) for columns in _of_segment_size(batches))

    def __len__(self) -> int:
        return self._count

    def storage(self) -> TableStorage:
        """Number, bytes and rows of its files: sums over parts, of which a commit makes few new ones."""
        rows = [part.rows for part in self.parts]
        known = [count for count in rows if count is not None]
        return TableStorage(
            len(self),
            sum(part.nbytes for part in self.parts),
            sum(known) if len(known) == len(rows) else None,
            sum(part.gone for part in self.parts),
        )

    def __iter__(self) -> Iterator[LiveFile]:
        for number, part in enumerate(self.parts):
            yield from self.at(number, part.live_rows)

    def at(self, number: int, rows: Int64s) -> Iterator[LiveFile]:
        """The files at some places of one part."""
        if len(rows) == 0:
            return
        segment = self.parts[number].segment
        chosen = pa.array(rows)
        vectors = [None] * len(rows) if segment.vectors is None else segment.vectors.take(chosen).to_pylist()
        columns = zip(
            rows.tolist(),
            segment.paths.take(chosen).to_pylist(),
            segment.sizes[rows].tolist(),
            segment.rows[rows].tolist(),
            vectors,
            segment.levels[rows].tolist(),
            strict=True,
        )
        for row, path, size, count, vector, level in columns:
            yield LiveFile(path, size, count, _with_values(vector), level, Slot(number, row))

    def chosen(self, test: Callable[[Part], Bools]) -> list[LiveFile]:
        """The live files for which `test` of their part holds."""
        found: list[LiveFile] = []
        for number, part in enumerate(self.parts):
            wanted = test(part)
            found += self.at(number, np.flatnonzero(wanted if part.live is None else wanted & part.live))
        return found

    def file_at(self, place: Slot) -> LiveFile:
        """One file."""
        return next(self.at(place.part, np.array([place.row])))

    def actions(self, files: Iterable[LiveFile]) -> list[DataFile]:
        """The actions of some of its files, in their order."""
        wanted = list(files)
        by_part: dict[int, list[int]] = {}
        for file in wanted:
            by_part.setdefault(file.place.part, []).append(file.place.row)
        found = {
            Slot(number, row): add
            for number, rows in by_part.items()
            for row, add in zip(rows, to_adds(self.parts[number].segment.actions(np.array(rows))), strict=True)
        }
        return [DataFile(found[file.place], file.place) for file in wanted]

    def all_actions(self) -> Iterator[DataFile]:
        """The actions of all files; a segment at a time is in memory."""
        for number, part in enumerate(self.parts):
            rows = part.live_rows
            for row, add in zip(rows.tolist(), to_adds(part.segment.actions(rows)), strict=True):
                yield DataFile(add, Slot(number, row))

    def by_path(self, paths: Iterable[str]) -> dict[str, LiveFile]:
        """Those of `paths` that are live; reads all paths."""
        wanted = pa.array(list(paths), pa.string())
        found: dict[str, LiveFile] = {}
        if len(wanted) == 0:
            return found
        for number, part in enumerate(self.parts):
            here = pc.is_in(part.segment.paths, value_set=wanted).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(here if part.live is None else here & part.live)
            found |= {file.path: file for file in self.at(number, rows)}
        return found

    def changed(self, add: Sequence[DataFile], remove: Sequence[DataFile]) -> FileIndex:
        """The next version.

        Args:
            add: Files that come; one that takes the place of a file of its path has that file in `remove`.
            remove: Files that go; found at once when they are from this index.

        Raises:
            KeyError: When a file to remove is not there.
        """
        gone: dict[int, list[int]] = {}
        for number, row in self._places(remove):
            gone.setdefault(number, []).append(row)
        parts = [part.without(gone[i]) if i in gone else part for i, part in enumerate(self.parts)]
        fresh = FileIndex.of([to_columns([file.add for file in add])])
        return FileIndex(_tidied([*parts, *fresh.parts]))

    def _places(self, files: Sequence[DataFile]) -> list[tuple[int, int]]:
        known = [file.place for file in files if file.place is not None and self._is_at(file.place, file.path)]
        if len(known) == len(files):
            return known
        found = self.by_path(file.path for file in files)
        return [found[file.path].place for file in files]

    def _is_at(self, place: tuple[int, int], path: str) -> bool:
        number, row = place
        if number >= len(self.parts) or row >= len(self.parts[number].segment):
            return False
        part = self.parts[number]
        return (part.live is None or bool(part.live[row])) and part.segment.paths[row].as_py() == path


def _with_values(vector: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if vector is None else {k: v for k, v in vector.items() if v is not None}


def _tidied(parts: list[Part]) -> list[Part]:
    """The same files in few segments: small ones put together, and those left that lost most of their files.

    Each file is copied about as often as the segments' sizes have steps, six times.
    """
    kept = [part for part in parts if part.count * 2 >= len(part.segment)]
    sparse = [part for part in parts if 0 < part.count * 2 < len(part.segment)]
    kept += _joined(sparse)
    while (first := _first_of_small(kept)) is not None:
        kept[first:] = _joined(kept[first:])
    return kept


def _first_of_small(parts: list[Part]) -> int | None:
    """Where the last segments begin that are of a size and enough to be put together."""
    if not parts:
        return None
    step, first = _step(parts[-1]), len(parts)
    while first > 0 and _step(parts[first - 1]) <= step and parts[first - 1].count * 2 <= SEGMENT_FILES:
        first -= 1
    return first if len(parts) - first >= _SMALL_PARTS else None


def _step(part: Part) -> int:
    return (part.count.bit_length() - 1) // 2


def _joined(parts: list[Part]) -> list[Part]:
    """The live files of `parts` in new segments."""
    if not parts:
        return []
    filled = [part for part in parts if part.count]
    live = (part.segment.actions(part.live_rows) for part in filled)
    counts = [_rows_of(part) for part in filled]
    known = [count for count in counts if count is not None]
    rows = np.concatenate(known) if known and len(known) == len(counts) else None
    joined, start = list[Part](), 0
    for columns in _of_segment_size(live):
        here = None if rows is None else rows[start : start + len(columns)].copy()
        joined.append(Part(Segment(columns, here)))
        start += len(columns)
    return joined


def _rows_of(part: Part) -> Int64s | None:
    """Rows in each of its live files, where that is known: what is put together need not be counted again."""
    rows = part.segment.rows_if_known
    return None if rows is None else rows[part.live_rows]


def _of_segment_size(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a segment's size; a few at a time are in memory."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        for start in range(0, len(batch), SEGMENT_FILES):
            held.append(batch.slice(start, SEGMENT_FILES))
            if sum(map(len, held)) >= SEGMENT_FILES:
                yield _copied(held)
                held = []
    if held:
        yield _copied(held)


def _copied(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch that keeps nothing else in memory, as slices do."""
    return pa.concat_batches([*batches, batches[0].slice(0, 0)])
