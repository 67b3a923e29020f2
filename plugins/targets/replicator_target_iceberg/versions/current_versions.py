"""The current versions of a table: where they are, and which of them go."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.row_versions import END_SEQUENCE, SEQUENCE, VALID_FROM
from replicator_sdk.row_versions.difference import ComparedTable
from replicator_sdk.row_versions.opening import CurrentVersions
from replicator_sdk.row_versions.version_columns import VersionColumns
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.matching import Sought, find, rows_at
from replicator_target_iceberg.apply.row_changes import Removal
from replicator_target_iceberg.files.data_file import read_rows
from replicator_target_iceberg.files.deleted_rows import deleted_rows
from replicator_target_iceberg.files.live_files import LiveFile
from replicator_target_iceberg.schema.table_form import VERSION_NAMES
from replicator_target_iceberg.schema.types import Layout

Int64s = npt.NDArray[np.int64]


def version_columns(layout: Layout) -> VersionColumns:
    """Those of a table with this layout."""
    return VersionColumns(pa.schema([field.with_nullable(True) for field in layout.arrow]), dict(VERSION_NAMES))


class CurrentFiles(ComparedTable):
    """Those of one version of a table. A file is known by its location.

    Args:
        place: Where and how.
    """

    def __init__(self, place: Place) -> None:
        self._place, self.columns = place, version_columns(place.layout)
        self._null = self.columns.field(END_SEQUENCE)
        self._gone: dict[str, Int64s] = {}
        self._removed: dict[str, list[Int64s]] = {}

    def find_current(self, keys: pa.Table) -> Iterator[CurrentVersions]:
        """All current versions of keys, file by file."""
        for found in find(self._place.storage, self._place.files, Sought(keys, tuple(self.columns.schema), self._null)):
            self._gone[found.file.location] = found.gone
            yield CurrentVersions(found.file.location, found.places, found.keys, found.fetched)

    def every_current(self) -> Iterator[tuple[Hashable, Int64s]]:
        """Where all current versions are, file by file."""
        for file in self._place.files:
            if not file.is_past:
                yield file.location, self._current_in(file)

    def _current_in(self, file: LiveFile) -> Int64s:
        [ends] = self._read(file, [self._null])
        places: Int64s = np.flatnonzero(pc.is_null(ends).to_numpy(zero_copy_only=False)).astype(np.int64)
        gone = self._gone[file.location] = deleted_rows(self._place.storage, file)
        return places[~np.isin(places, gone)] if len(gone) else places

    def rows_at(self, file: Hashable, places: Int64s) -> pa.Table:
        """Versions of a file, all columns."""
        return rows_at(self._place.storage, str(file), places, list(self.columns.schema))

    def remove(self, file: Hashable, places: Int64s) -> None:
        """Take versions out of the table, of a file in which some were found."""
        self._removed.setdefault(str(file), []).append(places)

    def removals(self) -> list[Removal]:
        """All versions that go."""
        return [
            Removal(self._place.files[location], self._gone[location], np.unique(np.concatenate(parts)))
            for location, parts in self._removed.items()
        ]

    def latest_start(self) -> int:
        """The latest time from which a current version is valid; microseconds since 1970 UTC, 0 where there is none."""
        wanted, latest = [self.columns.field(VALID_FROM)], 0
        for file in self._place.files:
            if not file.is_past:
                [starts] = self._read(file, wanted)
                latest = max(latest, pc.max(starts.cast(pa.int64())).as_py() or 0)
        return latest

    def highest_number(self) -> int:
        """The highest number of a change that opened or ended a version; for a table whose progress is not known."""
        wanted, highest = [self.columns.field(kind) for kind in (SEQUENCE, END_SEQUENCE)], 0
        for file in self._place.files:
            highest = max(highest, *(pc.max(numbers).as_py() or 0 for numbers in self._read(file, wanted)))
        return highest

    def _read(self, file: LiveFile, fields: list[pa.Field]) -> list[pa.Array]:
        """Columns of all rows of a file, of those that are gone as well."""
        parts = list(read_rows(self._place.storage, file.location, fields))
        rows = pa.concat_tables([pa.schema([f.with_nullable(True) for f in fields]).empty_table(), *parts])
        return [combined(column) for column in rows.columns]
