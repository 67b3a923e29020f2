"""Writes the changes of a merge-on-read table into new files (`replicator_sdk.merge_on_read.appending`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import DataError
from replicator_sdk.failpoint import failpoint
from replicator_sdk.merge_on_read.appending import AppendedTable, Appender
from replicator_sdk.net_change.numbering import Numbering
from replicator_target_delta.apply.changed_table import ChangedTable
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.row_matching import Sought
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.schema.encoding import encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_form import TableForm

Int64s = npt.NDArray[np.int64]


class AppendApply:
    """One run of changes of a table; made for it, used once.

    Args:
        place: Where and how.
        changes: The changes.
        stamper: Makes the metadata columns.
        form: The table's form, with keys of its readers.
        numbering: How the rows are numbered.
        partitions: As for `KeyedApply`.
        collects_keys: Whether `keys` is wanted.
    """

    def __init__(
        self,
        place: Place,
        changes: TableChanges,
        stamper: Stamper,
        form: TableForm,
        numbering: Numbering,
        *,
        partitions: Sequence[int] = (),
        collects_keys: bool = False,
    ) -> None:
        assert form.keys is not None
        self._place = place
        self._rows = Appender(
            _Table(place, changes, stamper),
            changes,
            form.keys,
            numbering,
            partitions=partitions,
            collects_keys=collects_keys,
        )

    @property
    def keys(self) -> list[pa.Table]:
        """The keys that rows were written of, each once."""
        return self._rows.keys

    @property
    def missing(self) -> int:
        """Updates that are dropped since their row is gone by now."""
        return self._rows.missing

    @property
    def highest(self) -> int:
        """The highest number that a row was given."""
        return self._rows.highest

    def write(self) -> list[DataFile]:
        """Write new files; in effect once they are committed.

        Raises:
            DataError: When an update lacks values of a row that the table does not have; or when a key has changes in several partitions.
            SnapshotNeededError: As `refuse_moved`.
        """
        with FileWriter(self._place.storage, self._place.target_bytes) as writer:
            self._rows.write(writer.add)
            files = writer.finish()
        failpoint("delta.files.written")
        return files


class _Table(ChangedTable, AppendedTable):
    def __init__(self, place: Place, changes: TableChanges, stamper: Stamper) -> None:
        super().__init__(place.state.layout, changes)
        self._place, self._stamper = place, stamper

    def encode(self, rows: pa.Table, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8]) -> pa.Table:
        return encode_rows(rows, self._layout, self._stamper.appended(sequence, timestamp, codes))

    def find(self, keys: pa.Table, fetch: Sequence[pa.Field]) -> Iterator[tuple[Int64s, pa.Table]]:
        for _, match in find(self._place, Sought(keys, np.ones(keys.num_rows, np.bool_), tuple(fetch))):
            if match.fetched is not None:
                yield match.keys.astype(np.int64), match.fetched

    def without_watermark(self) -> Exception:
        return DataError(
            "a row moved to another key, and the log has no watermark of it",
            code="RPL-5408",
            table=str(self._changes.table),
            position=str(self._changes.identity.position),
            hint="have the source log whole rows (in MySQL: binlog_row_image=FULL), or leave `watermarkKeys` out, then copy the table again:"
            " `replicator table resync NAME TABLE`",
        )
