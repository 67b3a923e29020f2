"""The current versions of a table: where they are, and which of them go."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from replicator_sdk.row_versions import END_SEQUENCE
from replicator_sdk.row_versions.difference import ComparedTable
from replicator_sdk.row_versions.opening import CurrentVersions
from replicator_sdk.row_versions.version_columns import VersionColumns
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.pruning import may_have_null
from replicator_target_delta.apply.row_matching import Sought, live_where_null, rows_at
from replicator_target_delta.apply.row_removal import Found
from replicator_target_delta.file_index.file_index import LiveFile, Slot

Int64s = npt.NDArray[np.int64]


class CurrentFiles(ComparedTable):
    """Those of one version of a table. A file is known by its slot in the index.

    Args:
        place: Where and how.
        columns: The table's columns.
    """

    def __init__(self, place: Place, columns: VersionColumns) -> None:
        self._place, self._columns, self._null = place, columns, columns.field(END_SEQUENCE)
        self._files: dict[Slot, tuple[LiveFile, int]] = {}
        self._removed: dict[Slot, BitMap64] = {}

    def find_current(self, keys: pa.Table) -> Iterator[CurrentVersions]:
        """All current versions of keys."""
        wanted = np.ones(keys.num_rows, np.bool_)
        for file, match in find(self._place, Sought(keys, wanted, tuple(self._columns.schema), self._null)):
            self._files[file.place] = file, match.rows
            assert match.fetched is not None
            places, found = match.positions.astype(np.int64), match.keys.astype(np.int64)
            yield CurrentVersions(file.place, places, found, match.fetched)

    def every_current(self) -> Iterator[tuple[Hashable, Int64s]]:
        """Where all current versions are, file by file."""
        for file in self._place.state.files.chosen(lambda part: may_have_null(part, self._null)):
            positions, total = live_where_null(self._place.storage, file.location, file.vector, self._null)
            self._files[file.place] = file, total
            yield file.place, positions

    def rows_at(self, file: Hashable, places: Int64s) -> pa.Table:
        """Versions of a file, all columns."""
        location = self._known(file)[0].location
        return rows_at(self._place.storage, location, places, list(self._columns.schema))

    def remove(self, file: Hashable, places: Int64s) -> None:
        """Take versions out of the table."""
        gone = self._removed.setdefault(self._known(file)[0].place, BitMap64())
        gone.update(BitMap64(places.astype(np.uint64)))

    def removed(self) -> Found:
        """All versions that go."""
        return [(*self._files[slot], np.array(gone.to_array(), np.int64)) for slot, gone in self._removed.items()]

    def _known(self, file: Hashable) -> tuple[LiveFile, int]:
        assert isinstance(file, Slot)
        return self._files[file]
