"""Applies the changes of a table without a key by bag semantics: as many copies come or go as the source says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import ChangeBatch, Int64s, TableChanges
from replicator_sdk.failpoint import failpoint
from replicator_sdk.net_change import NetBag, net_bag
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.row_matching import Sought
from replicator_target_delta.apply.row_removal import FileChanges, Found, Written
from replicator_target_delta.apply.unmatched_rows import UnmatchedRows
from replicator_target_delta.config import IS_DELETED
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.schema.encoding import encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper


class KeylessApply:
    """One run of changes of a table without a key; made for it, used once.

    Args:
        place: Where it works.
        changes: What came.
        stamper: Makes metadata columns.
        metadata_names: Metadata column → its name in the table.

    Attributes:
        missing: Copies that should have gone and were not there.
        unmatched: Removals whose rows are not there yet, once the changes are applied; None where nothing changes.
    """

    def __init__(self, place: Place, changes: TableChanges, stamper: Stamper, metadata_names: dict[str, str]) -> None:
        self._place = place
        self._changes = changes
        self._stamper = stamper
        self._names = metadata_names
        self._layout = place.state.layout
        self.missing = 0
        self.unmatched: UnmatchedRows | None = None
        fields = [c.arrow for c in self._layout.columns if c.name not in set(metadata_names.values())]
        self._waiting = UnmatchedRows.of(place.state.unmatched, fields)

    @property
    def only_adds(self) -> bool:
        """Whether all changes are INSERTs, and no earlier removal waits for one of their rows."""
        return self._changes.inserts_only and not len(self._waiting)

    def append(self) -> FileChanges:
        """Write a run of INSERTs only, batch by batch."""
        changes = FileChanges()
        with FileWriter(self._place.storage, self._place.target_bytes) as writer:
            for batch in self._changes.batches():
                writer.add(self._encode_inserts(batch))
            changes.add = writer.finish()
        failpoint("delta.files.written")
        return changes

    def _encode_inserts(self, batch: ChangeBatch) -> pa.Table:
        assert batch.sequence_numbers is not None
        size = len(batch)
        times = np.full(size, -1, np.int64) if batch.timestamps is None else batch.timestamps
        stamps = self._stamper.upserted(batch.sequence_numbers, times, np.ones(size, np.bool_))
        rows = pa.Table.from_arrays(batch.row.flatten(), schema=batch.schema.arrow)
        return encode_rows(rows, self._layout, stamps)

    def run(self) -> FileChanges:
        """Write all files and deletion vectors; in effect once the returned changes are committed."""
        changes = self.write().to_changes(self._place.storage, self._place.state.files)
        failpoint("delta.vectors.written")
        return changes

    def write(self) -> Written:
        """Write new files and find the rows that go. Holds the run in memory."""
        bag = net_bag(self._changes.batches(), self._changes.schema)
        waiting = (
            self._waiting.counts_of(self._encoded(bag.rows)) if len(self._waiting) else np.zeros(len(bag), np.int64)
        )
        with FileWriter(self._place.storage, self._place.target_bytes) as writer:
            comes = np.flatnonzero(bag.counts > waiting)
            writer.add(self._copies(bag, comes, deleted=False, counts=(bag.counts - waiting)[comes]))
            removed, left = self._remove(bag, writer)
            written = Written(writer.finish(), removed)
        after = np.where(bag.counts > 0, np.maximum(waiting - bag.counts, 0), waiting + left)
        self._keep_unmatched(bag.rows, waiting, after)
        failpoint("delta.files.written")
        return written

    def _encoded(self, rows: pa.Table) -> pa.Table:
        """Rows as the table's files hold them; without the replicator's own columns."""
        return encode_rows(rows, self._layout, {}).select(self._waiting.rows.column_names)

    def _keep_unmatched(self, rows: pa.Table, before: Int64s, after: Int64s) -> None:
        """Note how many copies of each row are to be removed once they arrive; in a log with one order none ever does."""
        if not self._changes.unordered:
            self.missing += int((after - before).clip(min=0).sum())
            after = np.minimum(before, after)
        touched = np.flatnonzero(before != after)
        if len(touched):
            chosen = self._encoded(rows.take(pa.array(touched)))
            self.unmatched = self._waiting.changed(chosen, after[touched])

    def _copies(self, bag: NetBag, chosen: np.ndarray, *, deleted: bool, counts: np.ndarray | None = None) -> pa.Table:
        """Rows of the bag, each as often as it comes, or as `counts` says."""
        often = np.repeat(chosen, np.abs(bag.counts[chosen]) if counts is None else counts)
        sequence, timestamp = bag.sequence[often], bag.timestamp[often]
        if deleted:
            stamps = self._stamper.removed(sequence, timestamp)
        else:
            stamps = self._stamper.upserted(sequence, timestamp, np.ones(len(often), np.bool_))
        return encode_rows(bag.rows.take(pa.array(often)), self._layout, stamps)

    def _remove(self, bag: NetBag, writer: FileWriter) -> tuple[Found, Int64s]:
        """Of each row that goes, exactly as many copies as it says; with soft deletes those that are there live.

        Returns:
            What goes, and for each row of the bag how many copies should have gone and are not there.
        """
        lacking = np.zeros(len(bag), np.int64)
        goes = np.flatnonzero(bag.counts < 0)
        if len(goes) == 0:
            return [], lacking
        left = -bag.counts[goes]
        live = {self._names[IS_DELETED]: pa.repeat(pa.scalar(False), len(goes))} if self._place.soft_deletes else {}
        rows = encode_rows(bag.rows.take(pa.array(goes)), self._layout, live)
        compared = {*bag.rows.column_names, *live}
        keys = rows.select([c.physical for c in self._layout.columns if c.name in compared])
        removed: Found = []
        taken = np.zeros(len(goes), np.int64)
        matches = sorted(find(self._place, Sought(keys.combine_chunks())), key=lambda found: found[0].path)
        for file, match in matches:
            chosen = _take_copies(match.keys, left)
            np.add.at(taken, match.keys[chosen], 1)
            removed.append((file, match.rows, match.positions[chosen]))
        if self._place.soft_deletes:
            writer.add(self._copies(bag, goes, deleted=True, counts=taken))
        lacking[goes] = left
        return removed, lacking


def _take_copies(keys: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Indexes into `keys` of the first `left` copies of each; counts `left` down."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.searchsorted(ordered, ordered, "left")
    rank = np.arange(len(ordered)) - starts
    chosen = order[rank < left[ordered]]
    np.subtract.at(left, keys[chosen], 1)
    return np.sort(chosen)
