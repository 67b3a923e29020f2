"""What one commit changes of a table of versions that is compared (`replicator_sdk.row_versions.difference`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from replicator_sdk.row_versions.difference import Difference, Ending
from replicator_sdk.row_versions.version_columns import VersionColumns
from replicator_sdk.schema import TableSchema
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.row_removal import FileChanges, Written
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.schema.types import Layout
from replicator_target_delta.versions.current_versions import CurrentFiles


class Compared:
    """A difference, and the files that come of it.

    Attributes:
        work: What is given rows.
    """

    def __init__(
        self,
        place: Place,
        columns: VersionColumns,
        keys: list[str],
        compared: list[str],
        ending: Ending,
        current: FileWriter,
        past: FileWriter,
    ) -> None:
        self._place, self._current, self._past = place, current, past
        self._files = CurrentFiles(place, columns)
        self.work = Difference[DataFile](self._files, columns, keys, compared, ending, current.add, past.add)

    def take(self, rows: pa.Table, written: DataFile | None = None) -> None:
        """As `Difference.take`."""
        self.work.take(rows, written)

    def end(self, keys: pa.Table) -> None:
        """As `Difference.end`."""
        self.work.end(keys)

    def end_others(self) -> None:
        """As `Difference.end_others`."""
        self.work.end_others()

    def finish(self) -> FileChanges:
        """The files to commit."""
        add = [*self.work.whole, *self._current.finish(), *self._past.finish()]
        return Written(add, self._files.removed()).to_changes(self._place.storage, self._place.state.files)


def end_all(place: Place, columns: VersionColumns, ending: Ending) -> FileChanges:
    """The files to commit where all versions end that are current."""
    with _compared(place, columns, [], [], ending) as work:
        work.end_others()
        return work.finish()


@contextmanager
def difference(
    place: Place, columns: VersionColumns, ending: Ending, layout: Layout, schema: TableSchema
) -> Iterator[Compared]:
    """A difference with writers of its own; files that are not finished then are abandoned.

    Args:
        place: Where and how.
        columns: The table's columns.
        ending: What ends versions.
        layout: The table's columns, by the names of `schema`.
        schema: The source's.
    """
    keys, compared = ([layout[name].physical for name in names] for names in (schema.primary_key, schema.names))
    with _compared(place, columns, keys, compared, ending) as work:
        yield work


@contextmanager
def _compared(
    place: Place, columns: VersionColumns, keys: list[str], compared: list[str], ending: Ending
) -> Iterator[Compared]:
    storage, size = place.storage, place.target_bytes
    with FileWriter(storage, size) as current, FileWriter(storage, size) as past:
        yield Compared(place, columns, keys, compared, ending, current, past)
