"""Compares rows as they are to be with the current versions of a table: ends what differs and what is gone, opens what is to be there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from replicator_sdk.batch import combined
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_sdk.schema import TableSchema
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.pruning import may_have_null
from replicator_target_delta.apply.row_matching import FileMatch, Sought, live_where_null, rows_at
from replicator_target_delta.apply.row_removal import FileChanges, Found, Written
from replicator_target_delta.config import END_SEQUENCE
from replicator_target_delta.file_index.file_index import LiveFile, Slot
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.versions.version_columns import VersionColumns

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends versions.

    Attributes:
        number: A number above all in the table.
        time: When; microseconds since 1970 UTC.
    """

    number: int
    time: int


class Difference:
    """What one commit changes; made for it, used once, by one thread. Versions that equal the rows to be stay as they are.

    Args:
        place: Where and how.
        columns: The table's columns, in whose form rows are given and written.
        keys: The physical names of its key.
        compared: Those of the columns that versions are compared by.
        ending: What ends versions.
        current: Writes current versions.
        past: Writes ended ones.
    """

    def __init__(
        self,
        place: Place,
        columns: VersionColumns,
        keys: Sequence[str],
        compared: Sequence[str],
        ending: Ending,
        current: FileWriter,
        past: FileWriter,
    ) -> None:
        self._place, self._columns, self._keys, self._compared = place, columns, list(keys), list(compared)
        self._ending, self._current, self._past = ending, current, past
        self._null = columns.field(END_SEQUENCE)
        self._seen: dict[Slot, BitMap64] = {}
        self._removed: dict[Slot, tuple[LiveFile, int, BitMap64]] = {}
        self._whole: list[DataFile] = []

    def take(self, rows: pa.Table, written: DataFile | None = None) -> None:
        """Have the table hold `rows`.

        Args:
            rows: Of distinct keys, as current versions in the table's form.
            written: A file that holds just them, and that no commit names yet; None for none.
        """
        if not rows.num_rows:
            return
        opened = np.ones(rows.num_rows, np.bool_)
        for file, match in self._find(rows.select(self._keys)):
            assert match.fetched is not None
            new = rows.take(pa.array(match.keys))
            free = ~self._is_seen(file, match.positions)
            same = self._equal(match.fetched, new) & free & opened[match.keys]
            _, first = np.unique(match.keys[same], return_index=True)
            stays = np.zeros(len(same), np.bool_)
            stays[np.flatnonzero(same)[first]] = True
            opened[match.keys[stays]] = False
            goes = np.flatnonzero(free & ~stays)
            self._note(file, match.positions)
            self._end(file, match, goes, self._columns.starts(new.take(pa.array(goes))))
        if written is not None and opened.all():
            self._whole.append(written)
        else:
            self._current.add(rows.filter(pa.array(opened)))

    def end(self, keys: pa.Table) -> None:
        """Have the table hold no row of `keys`, which are distinct."""
        for file, match in self._find(keys):
            goes = np.flatnonzero(~self._is_seen(file, match.positions))
            self._note(file, match.positions)
            self._end(file, match, goes, np.full(len(goes), self._ending.time, np.int64))

    def end_others(self) -> None:
        """End the current versions of all other keys."""
        files = self._place.state.files
        for file in files.chosen(lambda part: may_have_null(part, self._null)):
            positions, total = live_where_null(self._place.storage, file.location, file.vector, self._null)
            left = positions[~self._is_seen(file, positions)]
            if not len(left):
                continue
            rows = rows_at(self._place.storage, file.location, left, list(self._columns.schema))
            self._remove(file, total, left)
            self._past.add(self._ended(rows, np.full(len(left), self._ending.time, np.int64)))

    def finish(self) -> Written:
        """All that was written, and the rows that go."""
        add = [*self._whole, *self._current.finish(), *self._past.finish()]
        removed: Found = [
            (file, rows, np.array(gone.to_array(), np.int64)) for file, rows, gone in self._removed.values()
        ]
        return Written(add, removed)

    def _find(self, keys: pa.Table) -> list[tuple[LiveFile, FileMatch]]:
        if not keys.num_rows:
            return []
        wanted = np.ones(keys.num_rows, np.bool_)
        sought = Sought(keys.combine_chunks(), wanted, tuple(self._columns.schema), self._null)
        return list(find(self._place, sought))

    def _end(self, file: LiveFile, match: FileMatch, goes: Int64s, times: Int64s) -> None:
        """End the versions at some places of a match."""
        if len(goes):
            assert match.fetched is not None
            self._remove(file, match.rows, match.positions[goes])
            self._past.add(self._ended(match.fetched.take(pa.array(goes)), times))

    def _ended(self, rows: pa.Table, times: Int64s) -> pa.Table:
        return self._columns.ended(rows, np.full(rows.num_rows, self._ending.number, np.int64), times)

    def _equal(self, old: pa.Table, new: pa.Table) -> Bools:
        """Row by row: NULL equals NULL, NaN equals NaN."""
        equal = np.ones(old.num_rows, np.bool_)
        for name in self._compared:
            codes, _ = code_rows([pa.concat_arrays([combined(old.column(name)), combined(new.column(name))])])
            equal &= codes[: old.num_rows] == codes[old.num_rows :]
        return equal

    def _is_seen(self, file: LiveFile, positions: Int64s) -> Bools:
        seen = self._seen.get(file.place)
        return np.zeros(len(positions), np.bool_) if seen is None else np.isin(positions, np.array(seen.to_array()))

    def _note(self, file: LiveFile, positions: Int64s) -> None:
        self._seen.setdefault(file.place, BitMap64()).update(BitMap64(positions.astype(np.uint64)))

    def _remove(self, file: LiveFile, rows: int, positions: Int64s) -> None:
        gone = self._removed.setdefault(file.place, (file, rows, BitMap64()))[2]
        gone.update(BitMap64(positions.astype(np.uint64)))


def end_all(place: Place, columns: VersionColumns, ending: Ending) -> FileChanges:
    """The files to commit where all versions end that are current."""
    storage, size = place.storage, place.target_bytes
    with FileWriter(storage, size) as current, FileWriter(storage, size) as past:
        work = Difference(place, columns, (), (), ending, current, past)
        work.end_others()
        return work.finish().to_changes(storage, place.state.files)


@contextmanager
def difference(
    place: Place, columns: VersionColumns, ending: Ending, layout: Layout, schema: TableSchema
) -> Iterator[Difference]:
    """A difference with writers of its own; files that are not finished then are abandoned.

    Args:
        place: Where and how.
        columns: The table's columns.
        ending: What ends versions.
        layout: The table's columns, by the names of `schema`.
        schema: The source's.
    """
    keys, compared = ([layout[name].physical for name in names] for names in (schema.primary_key, schema.names))
    storage, size = place.storage, place.target_bytes
    with FileWriter(storage, size) as current, FileWriter(storage, size) as past:
        yield Difference(place, columns, keys, compared, ending, current, past)
