"""Writes each change of a table as a version into new files (`replicator_sdk.row_versions.opening`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.failpoint import failpoint
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.row_versions.opening import CurrentVersions, VersionedTable, VersionsWriter
from replicator_sdk.row_versions.version_columns import Spans, now
from replicator_target_iceberg.apply.changed_table import ChangedTable
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.row_changes import RowChanges, take_out
from replicator_target_iceberg.files.data_file import PAST, FileWriter
from replicator_target_iceberg.schema.encoding import encode_rows
from replicator_target_iceberg.schema.stamps import version_stamps
from replicator_target_iceberg.versions.current_versions import CurrentFiles

Int64s = npt.NDArray[np.int64]


@contextmanager
def writers(place: Place) -> Iterator[tuple[FileWriter, FileWriter]]:
    """Where current versions are written, and where ended ones are; files that are not finished then are deleted."""
    storage, size, form, chosen_by = place.storage, place.target_bytes, place.form, place.chosen_by
    with (
        FileWriter(storage, size, form, chosen_by) as current,
        FileWriter(storage, size, form, chosen_by, begin=PAST) as past,
    ):
        yield current, past


def open_versions(place: Place, changes: TableChanges) -> tuple[RowChanges, int]:
    """Write a version for each change that leaves a row, and end those before; in effect once the returned changes are committed. And how
    many rows were taken away that were not there, or updates dropped since their row is gone by now.

    Raises:
        DataError: When an update lacks values of a row that the table does not have.
        SnapshotNeededError: When such values are in no known place.
    """
    table, made = _Table(place, changes), RowChanges()
    versions = VersionsWriter(table, changes, Numbering(place.highest, changes.identity.first_sequence), now=now())
    with writers(place) as (current, past):
        versions.write(current.add, past.add)
        made.add = [*current.finish(), *past.finish()]
        take_out(place.storage, table.files.removals(), place.format_version, made)
    made.highest = versions.highest
    failpoint("iceberg.files.written")
    return made, versions.missing


class _Table(ChangedTable, VersionedTable):
    def __init__(self, place: Place, changes: TableChanges) -> None:
        super().__init__(place, changes)
        self.files = CurrentFiles(place)
        self.columns = self.files.columns

    def field(self, name: str) -> pa.Field:
        return self.columns.schema.field(name)

    def encode(
        self,
        rows: pa.Table,
        sequence: Int64s,
        timestamp: Int64s,
        codes: npt.NDArray[np.int8],  # noqa: ARG002 - no column says it
        spans: Spans,
    ) -> pa.Table:
        return encode_rows(rows, self._place.layout, version_stamps(sequence, timestamp, spans))

    def find_current(self, keys: pa.Table) -> Iterator[CurrentVersions]:
        return self.files.find_current(keys)

    def remove(self, file: Hashable, places: Int64s) -> None:
        self.files.remove(file, places)
