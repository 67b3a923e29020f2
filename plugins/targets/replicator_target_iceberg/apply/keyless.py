"""Applies the changes of a table without a key: as many copies of each row come or go as the source says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.failpoint import failpoint
from replicator_sdk.net_change import NetBag, net_bag
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.matching import Sought, find
from replicator_target_iceberg.apply.row_changes import Removal, RowChanges, take_out
from replicator_target_iceberg.files.data_file import FileWriter
from replicator_target_iceberg.schema.encoding import encode_columns, encode_rows

Int64s = npt.NDArray[np.int64]


class KeylessApply:
    """One run of changes of a table without a key; made for it, used once.

    Attributes:
        missing: Copies that should have gone and were not there.
    """

    def __init__(self, place: Place, changes: TableChanges) -> None:
        self._place, self._changes = place, changes
        self.missing = 0

    def run(self) -> RowChanges:
        """Write all files; in effect once the returned changes are committed. Holds changes that remove rows in memory."""
        place, changes = self._place, RowChanges()
        with FileWriter(place.storage, place.target_bytes, place.form) as writer:
            if self._changes.inserts_only:
                for batch in self._changes.batches():
                    rows = pa.Table.from_arrays(batch.row.flatten(), schema=batch.schema.arrow)
                    writer.add(encode_rows(rows, place.layout))
                changes.add = writer.finish()
            else:
                bag = net_bag(self._changes.batches(), self._changes.schema)
                comes = np.flatnonzero(bag.counts > 0)
                often = pa.array(np.repeat(comes, bag.counts[comes]))
                writer.add(encode_rows(bag.rows.take(often), place.layout))
                removals = self._remove(bag)
                changes.add = writer.finish()
                take_out(place.storage, removals, place.format_version, changes)
        failpoint("iceberg.files.written")
        return changes

    def _remove(self, bag: NetBag) -> list[Removal]:
        """Of each row that goes exactly as many copies as it says."""
        goes = np.flatnonzero(bag.counts < 0)
        if not len(goes):
            return []
        left = -bag.counts[goes]
        keys = encode_columns(bag.rows.take(pa.array(goes)), self._changes.schema.names, self._place.layout)
        removals = []
        found = find(self._place.storage, self._place.files, Sought(keys.combine_chunks()))
        for match in sorted(found, key=lambda one: one.file.location):
            chosen = _copies(match.keys, left)
            removals.append(Removal(match.file, match.gone, match.places[chosen]))
        self.missing = int(left.sum())
        return removals


def _copies(keys: Int64s, left: Int64s) -> Int64s:
    """Indexes into `keys` of the first copies of each key, as many as are `left`, which are counted down."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, "left")
    chosen = order[rank < left[ordered]]
    np.subtract.at(left, keys[chosen], 1)
    return np.sort(chosen)
