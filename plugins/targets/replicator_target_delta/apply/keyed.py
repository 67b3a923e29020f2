"""Applies the net changes of a table with a key: rows that go into deletion vectors, rows that come into new files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import DataError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.net_change.keys import encode_rows as code_rows
from replicator_target_delta.apply.finding import Place, find
from replicator_target_delta.apply.incomplete import IncompleteRows, SealedRows
from replicator_target_delta.apply.matching import Sought
from replicator_target_delta.apply.rewriting import FileChanges, mark_removed
from replicator_target_delta.encoding import combined, encode_keys, encode_rows
from replicator_target_delta.files import DataFile
from replicator_target_delta.stamps import Stamper
from replicator_target_delta.writing import FileWriter

register("delta.files.written", "delta.vectors.written")
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Found = list[tuple[DataFile, int, Int64s]]


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for, and what it is for.

    Attributes:
        sought: Distinct keys.
        waiting: For each key the incomplete row whose old values stand there, -1 for none.
    """

    sought: Sought
    waiting: Int64s


class KeyedApply:
    """One run of changes of a table with a key; made for it, used once.

    Attributes:
        missing: Deletes of rows that were not there, and updates in an overlap whose row is gone by now.
    """

    def __init__(self, place: Place, changes: TableChanges, stamper: Stamper) -> None:
        self._place = place
        self._changes = changes
        self._stamper = stamper
        self._schema = changes.schema
        self._layout = place.state.layout
        self._key_names = [self._layout[name].physical for name in self._schema.primary_key]
        self._incomplete = IncompleteRows(self._layout.physical)
        self._written_keys: list[pa.Table] = []
        self.missing = 0

    def run(self) -> FileChanges:
        """Write all files; in effect once the returned changes are committed.

        Raises:
            DataError: When an update lacks values of a row that the table does not have.
        """
        plan = NetPlan(self._changes.batches, self._schema, overlap=self._changes.overlap)
        changes = FileChanges()
        try:
            with FileWriter(self._place.storage, self._place.target_bytes) as writer:
                for part in plan.parts():
                    self._take(part, writer)
                removed = self._remove(plan, writer)
                changes.add = writer.finish()
        finally:
            self._incomplete.close()
        failpoint("delta.files.written")
        mark_removed(self._place.storage, removed, changes)
        failpoint("delta.vectors.written")
        return changes

    def _take(self, part: Upserts, writer: FileWriter) -> None:
        """Write the complete rows of `part`, keep the others aside, and note which keys they replace."""
        stamps = self._stamper.upserted(part.sequence, part.timestamp, part.fresh)
        rows = encode_rows(part.rows, self._layout, stamps)
        # A key that is new at the source may stand in the table as a deleted row that was kept.
        replaced = np.ones(len(part), np.bool_) if self._place.soft_deletes else ~part.fresh
        keys = rows.select(self._key_names)
        self._written_keys.append(keys if replaced.all() else keys.filter(pa.array(replaced)))
        if len(part.origin_rows) == 0:
            writer.add(rows)
            return
        lacking = np.zeros(len(part), np.bool_)
        lacking[part.origin_rows] = True
        writer.add(rows.filter(pa.array(~lacking)))
        self._incomplete.add(
            rows.take(pa.array(part.origin_rows)),
            {self._layout[name].physical: mask[part.origin_rows] for name, mask in part.unresolved.items()},
            encode_keys(part.origin, self._schema, self._layout),
            part.sequence[part.origin_rows],
            deletes=False,
        )

    def _remove(self, plan: NetPlan, writer: FileWriter) -> Found:
        """Find the rows that go; completes and writes the rows kept aside."""
        deletes = encode_keys(plan.deletes, self._schema, self._layout)
        if self._place.soft_deletes and deletes.num_rows:
            self._keep_deleted(plan, deletes)
        held = self._incomplete.seal() if self._incomplete.size else None
        search = self._search(deletes, held)
        done = np.zeros(self._incomplete.size, np.bool_)
        removed: Found = []
        deletes_found = 0
        for file, match in find(self._place, search.sought):
            removed.append((file, match.rows, match.positions))
            deletes_found += int(np.count_nonzero(match.keys < deletes.num_rows))
            if held is not None and match.fetched is not None:
                rows = search.waiting[match.keys]
                rows = rows[rows >= 0]
                writer.add(held.complete(rows, match.fetched))
                done[rows] = True
        if held is not None and not done.all():
            self._finish_lost(held, done, writer)
        self.missing += 0 if self._changes.overlap else max(0, deletes.num_rows - deletes_found)
        return removed

    def _keep_deleted(self, plan: NetPlan, deletes: pa.Table) -> None:
        """A kept deleted row is the old row with other metadata columns: all its source columns are to be found."""
        stamps = self._stamper.removed(plan.delete_sequence, plan.delete_timestamp)
        rows = encode_rows(plan.deletes, self._layout, stamps)
        everything = np.ones(rows.num_rows, np.bool_)
        known = {*stamps, *self._schema.primary_key}
        lacking = {c.physical: everything for c in self._layout.columns if c.name not in known}
        if lacking:
            self._incomplete.add(rows, lacking, deletes, plan.delete_sequence, deletes=True)

    def _search(self, deletes: pa.Table, held: SealedRows | None) -> _Search:
        """All keys to look for, deletes first, each once."""
        keys = pa.concat_tables([deletes, *self._written_keys])
        self._written_keys = []
        if held is None:
            return _Search(Sought(keys), np.empty(0, np.int64))
        both = pa.concat_tables([keys, held.origin])
        codes, count = code_rows([combined(c) for c in both.columns])
        first = np.empty(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal indexes numpy keeps the last: the first row
        waiting = np.full(count, -1, np.int64)
        waiting[codes[keys.num_rows :]] = np.arange(held.origin.num_rows)
        distinct = both.take(pa.array(first)).combine_chunks()
        return _Search(Sought(distinct, waiting >= 0, held.fetch), waiting)

    def _finish_lost(self, held: SealedRows, done: Bools, writer: FileWriter) -> None:
        """Rows whose old row is not in the table.

        Kept images of deletes: there is nothing to keep. In an overlap the table may hold the row under its new key
        already; if not, a later change takes the row away again, since the snapshot did not see it.
        """
        lost = np.flatnonzero(~done & ~held.deletes)
        if len(lost) == 0:
            return
        if not self._changes.overlap:
            raise DataError(
                f"{len(lost)} updates do not carry columns whose old values the target's rows should have, "
                "but it has no such rows",
                code="RPL-5401",
                table=str(self._changes.table),
                position=f"sequence {held.sequence[lost[0]]}",
                hint="rows were removed at the target by somebody else: take a new snapshot of the table",
            )
        own = held.rows.select(self._key_names).take(pa.array(lost)).combine_chunks()
        found = 0
        sought = Sought(own, np.ones(len(lost), np.bool_), held.fetch)
        for _, match in find(self._place, sought):
            if match.fetched is not None:
                writer.add(held.complete(lost[match.keys], match.fetched))
                found += len(match.keys)
        self.missing += len(lost) - found
