"""Writes each change of a table as a version into new files (`replicator_sdk.row_versions.opening`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.failpoint import failpoint
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.row_versions.opening import CurrentVersions, VersionedTable, VersionsWriter
from replicator_sdk.row_versions.version_columns import Spans, VersionColumns
from replicator_target_delta.apply.changed_table import ChangedTable
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.row_removal import Written
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.schema.encoding import encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.versions.current_versions import CurrentFiles

Int64s = npt.NDArray[np.int64]


class VersionsApply:
    """One run of changes of a table of versions; made for it, used once.

    Args:
        place: Where and how.
        changes: The changes.
        stamper: Makes the metadata columns.
        columns: The table's columns.
        numbering: How versions are numbered.
        now: Is taken for commit times that the source does not report; microseconds since 1970 UTC.
        partitions: As for `KeyedApply`.
        collects_new: Whether `new_keys` is wanted.
    """

    def __init__(
        self,
        place: Place,
        changes: TableChanges,
        stamper: Stamper,
        columns: VersionColumns,
        numbering: Numbering,
        *,
        now: int,
        partitions: Sequence[int] = (),
        collects_new: bool = False,
    ) -> None:
        self._place = place
        self._table = _Table(place, changes, stamper, columns)
        self._versions = VersionsWriter(
            self._table, changes, numbering, now=now, partitions=partitions, collects_new=collects_new
        )

    @property
    def new_keys(self) -> list[pa.Table]:
        """Keys of the changes that the table has no current version of, each once."""
        return self._versions.new_keys

    @property
    def missing(self) -> int:
        """Rows that are taken away and were not there, and updates that are dropped since their row is gone by now."""
        return self._versions.missing

    @property
    def highest(self) -> int:
        """The highest number of a change."""
        return self._versions.highest

    def write(self) -> Written:
        """Write new files and find the rows that they replace; the caller writes the deletion vectors.

        Raises:
            DataError: When an update lacks values of a row that the table does not have; or when a key has changes in several partitions.
            SnapshotNeededError: As `refuse_moved`.
        """
        size = self._place.target_bytes
        with FileWriter(self._place.storage, size) as current, FileWriter(self._place.storage, size) as past:
            self._versions.write(current.add, past.add)
            files = [*current.finish(), *past.finish()]
        failpoint("delta.files.written")
        return Written(files, self._table.files.removed())


class _Table(ChangedTable, VersionedTable):
    def __init__(self, place: Place, changes: TableChanges, stamper: Stamper, columns: VersionColumns) -> None:
        super().__init__(place.state.layout, changes)
        self.columns = columns
        self.files = CurrentFiles(place, columns)
        self._stamper = stamper

    def encode(
        self, rows: pa.Table, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8], spans: Spans
    ) -> pa.Table:
        return encode_rows(rows, self._layout, self._stamper.versions(sequence, timestamp, codes, spans))

    def find_current(self, keys: pa.Table) -> Iterator[CurrentVersions]:
        return self.files.find_current(keys)

    def remove(self, file: Hashable, places: Int64s) -> None:
        self.files.remove(file, places)
