"""Each change of a key as a row of its own: what the mode `merge-on-read` writes (`replicator_sdk.merge_on_read.appending`)."""

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
from replicator_target_iceberg.apply.changed_table import ChangedTable
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.matching import Sought, find
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.files.data_file import FileWriter
from replicator_target_iceberg.schema.encoding import encode_rows
from replicator_target_iceberg.schema.stamps import stamps

Int64s = npt.NDArray[np.int64]


def append_rows(place: Place, changes: TableChanges) -> tuple[RowChanges, int]:
    """Write a row for each change, in effect once the returned changes are committed; and how many updates are dropped since their
    row is gone by now.

    Raises:
        DataError: When an update lacks values of a row that the table does not have.
        SnapshotNeededError: When such values are in no known place.
    """
    assert place.table.keys is not None
    made, numbering = RowChanges(), Numbering(place.highest, changes.identity.first_sequence)
    rows = Appender(_Table(place, changes), changes, place.table.keys, numbering)
    with FileWriter(place.storage, place.target_bytes, place.form, place.chosen_by) as writer:
        rows.write(writer.add)
        made.add = writer.finish()
    made.highest = rows.highest
    failpoint("iceberg.files.written")
    return made, rows.missing


class _Table(ChangedTable, AppendedTable):
    def encode(self, rows: pa.Table, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8]) -> pa.Table:  # noqa: ARG002 - tombstones say it
        return encode_rows(rows, self._place.layout, stamps(self._place.table, sequence, timestamp))

    def find(self, keys: pa.Table, fetch: Sequence[pa.Field]) -> Iterator[tuple[Int64s, pa.Table]]:
        for found in find(self._place.storage, self._place.files, Sought(keys, tuple(fetch))):
            yield found.keys, found.fetched

    def without_watermark(self) -> Exception:
        return DataError(
            "a row moved to another key, and the log has no watermark of it",
            code="RPL-5426",
            table=str(self._changes.table),
            position=str(self._changes.identity.position),
            hint="have the source log whole rows (in MySQL: binlog_row_image=FULL), or leave `watermarkKeys` out, then copy the table again:"
            " `replicator table resync NAME TABLE`",
        )
