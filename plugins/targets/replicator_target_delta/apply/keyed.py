"""Applies the net changes of a table with a key: rows that go into deletion vectors, rows that come into new files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges, combined
from replicator_sdk.errors import DataError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_sdk.net_change.partial_rows import IncompleteRows, SealedRows
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.row_matching import FileMatch, Sought, searches_sorted
from replicator_target_delta.apply.row_removal import FileChanges, Found, Written
from replicator_target_delta.config import IS_DELETED
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.schema.encoding import encode_keys, encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper

register("delta.files.written", "delta.vectors.written")
_LARGE_ROWS: Final = 1_000_000
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for, and what it is for.

    Attributes:
        sought: Distinct keys.
        deleted: For each key whether it is a deleted row's.
        updated: For each key the incomplete row that takes its old values from there, -1 for none; empty when no row is
            incomplete.
        kept: The same for the kept image of the row that is deleted there. A row that moves away has both.
    """

    sought: Sought
    deleted: Bools
    updated: Int64s
    kept: Int64s


class KeyedApply:
    """One run of changes of a table with a key; made for it, used once.

    Args:
        place: Where and how.
        changes: The changes.
        stamper: Makes the metadata columns.
        partitions: For each batch the partition of the log it is from; empty where the batches are in the source's order.
        collects_new: Whether `new_keys` is wanted.

    Attributes:
        new_keys: Written and deleted keys that the table does not hold, each once.
        missing: Deletes of rows that were not there, and updates that are dropped since their row is gone by now.
    """

    def __init__(
        self,
        place: Place,
        changes: TableChanges,
        stamper: Stamper,
        *,
        partitions: Sequence[int] = (),
        collects_new: bool = False,
    ) -> None:
        self._place = place
        self._changes = changes
        self._stamper = stamper
        self._schema = changes.schema
        self._layout = place.state.layout
        # A kept deleted row is another row than the one an update belongs to: it has no values for it.
        self._dead_mark: pa.Field | None = None
        if place.soft_deletes and not changes.drops_lost_updates:
            self._dead_mark = self._layout[stamper.names[IS_DELETED]].arrow
        self._key_names = [self._layout[name].physical for name in self._schema.primary_key]
        self._incomplete = IncompleteRows(self._layout.physical)
        self._partitions = partitions
        self._collects_new = collects_new
        self._written_keys: list[pa.Table] = []
        self.new_keys: list[pa.Table] = []
        self._is_large = changes.rows >= _LARGE_ROWS
        self.missing = 0

    def run(self) -> FileChanges:
        """Write all files and deletion vectors; in effect once the returned changes are committed.

        Raises:
            DataError: When an update lacks values of a row that the table does not have.
        """
        changes = self.write().to_changes(self._place.storage, self._place.state.files)
        failpoint("delta.vectors.written")
        return changes

    def write(self) -> Written:
        """Write new files and find the rows to delete; the caller writes the deletion vectors.

        Raises:
            DataError: As `run`; or when a key has changes in several partitions.
        """
        plan = NetPlan(self._changes.batches, self._schema, overlap=self._changes.overlap, partitions=self._partitions)
        if plan.keys_in_several:
            raise in_several_partitions(self._changes.table, self._changes.identity.position, plan.keys_in_several)
        self._release_memory()
        try:
            with FileWriter(self._place.storage, self._place.target_bytes, releases=self._is_large) as writer:
                for part in plan.parts():
                    self._take(part, writer)
                self._release_memory()
                removed = self._remove(plan, writer)
                written = Written(writer.finish(), removed)
        finally:
            self._incomplete.close()
        failpoint("delta.files.written")
        return written

    def _release_memory(self) -> None:
        """In a large run give back what the allocators keep for later: NumPy's memory may never go back by itself."""
        if self._is_large:
            pa.default_memory_pool().release_unused()
            pa.system_memory_pool().release_unused()

    def _take(self, part: Upserts, writer: FileWriter) -> None:
        """Write the complete rows of `part`, keep the others aside, and note which keys they replace."""
        stamps = self._stamper.upserted(part.sequence, part.timestamp, part.fresh)
        rows = encode_rows(part.rows, self._layout, stamps)
        # A key that is new at the source may be in the table as a deleted row that was kept.
        replaced = np.ones(len(part), np.bool_) if self._place.soft_deletes else ~part.fresh
        if replaced.any():
            # Taken, since a slice would keep the whole batch in memory until the end of the run.
            self._written_keys.append(rows.select(self._key_names).take(pa.array(np.flatnonzero(replaced))))
        if self._collects_new and not replaced.all():
            self.new_keys.append(rows.select(self._key_names).take(pa.array(np.flatnonzero(~replaced))))
        if len(part.origin_rows) == 0:
            writer.add(rows)
            return
        if self._changes.overlap:
            refuse_moved(part, self._changes)
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
        is_new = np.ones(search.sought.keys.num_rows if self._collects_new else 0, np.bool_)
        for file, match in find(self._place, search.sought):
            removed.append((file, match.rows, match.positions))
            deletes_found += int(np.count_nonzero(search.deleted[match.keys]))
            if self._collects_new:
                is_new[match.keys] = False
            if held is not None and match.fetched is not None:
                self._complete(held, search, match, match.fetched, writer, done)
        if is_new.any():
            self.new_keys.append(search.sought.keys.take(pa.array(np.flatnonzero(is_new))))
        if held is not None and not done.all():
            self._finish_lost(held, done)
        self.missing += 0 if self._changes.overlap else max(0, deletes.num_rows - deletes_found)
        return removed

    def _complete(
        self, held: SealedRows, search: _Search, match: FileMatch, old: pa.Table, writer: FileWriter, done: Bools
    ) -> None:
        """Write the rows kept aside whose old values are in `old`, the rows of one file that were fetched."""
        assert search.sought.wanted is not None
        keys = match.keys[search.sought.wanted[match.keys]]
        updated = search.updated[keys]
        if self._dead_mark is not None:
            updated[old.column(self._dead_mark.name).to_numpy()] = -1
        for rows in (updated, search.kept[keys]):
            here = np.flatnonzero(rows >= 0)
            if len(here):
                writer.add(held.complete(rows[here], old.take(pa.array(here))))
                done[rows[here]] = True

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
            keys, deleted = _ordered(keys, deletes)
            return _Search(Sought(keys), deleted, np.empty(0, np.int64), np.empty(0, np.int64))
        both = pa.concat_tables([keys, held.origin])
        codes, count = code_rows([combined(c) for c in both.columns])
        first = np.empty(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal indexes numpy keeps the last: the first row
        origin = codes[keys.num_rows :]
        updated, kept = (_by_key(origin, which, count) for which in (~held.deletes, held.deletes))
        fetch = held.fetch if self._dead_mark is None else (*held.fetch, self._dead_mark)
        distinct = both.take(pa.array(first)).combine_chunks()
        sought = Sought(distinct, (updated >= 0) | (kept >= 0), fetch)
        return _Search(sought, np.arange(count) < deletes.num_rows, updated, kept)

    def _finish_lost(self, held: SealedRows, done: Bools) -> None:
        """Rows whose old row is not in the table.

        Kept images of deletes: there is nothing to keep. Where the runtime's snapshot read the row's place when it was
        gone, a change to come deletes it, or writes it whole.

        Raises:
            DataError: When the values of a row are nowhere.
        """
        lost = np.flatnonzero(~done & ~held.deletes)
        if len(lost) == 0:
            return
        if self._changes.drops_lost_updates:
            self.missing += len(lost)
            return
        raise lost_updates(self._changes, len(lost), int(held.sequence[lost[0]]))


def refuse_moved(part: Upserts, changes: TableChanges) -> None:
    """In an overlap the place of the old values of a row that moved to another key is unknown.

    The snapshot may have read it before or after the move, or both or neither, and another row may have its old key
    by now.

    Raises:
        SnapshotNeededError: RPL-5403 when `part` has such rows.
    """
    own = part.rows.select(list(changes.schema.primary_key)).take(pa.array(part.origin_rows))
    codes, _ = code_rows([combined(c) for c in pa.concat_tables([own, part.origin.cast(own.schema)]).columns])
    moved = codes[: own.num_rows] != codes[own.num_rows :]
    if moved.any():
        raise SnapshotNeededError(
            f"{int(moved.sum())} rows moved to another key while an interrupted copy of the table went on, and the "
            "log does not carry all their columns",
            code="RPL-5403",
            table=str(changes.table),
            hint="nothing to do: the table is copied again",
        )


def lost_updates(changes: TableChanges, count: int, sequence: int) -> DataError:
    """What to say of updates whose old rows are not in the table.

    Args:
        changes: What they are part of.
        count: How many they are.
        sequence: The number of the first one.
    """
    table, position = str(changes.table), f"sequence {sequence}"
    if changes.overlap:
        return DataError(
            f"{count} updates do not carry columns whose values are in no row of the table",
            code="RPL-5405",
            table=table,
            position=position,
            hint="have the source log whole rows (in PostgreSQL: ALTER TABLE … REPLICA IDENTITY FULL), then copy the table again:"
            " `replicator table resync NAME TABLE`; where it is read from topics let its connector snapshot its tables again instead, set the"
            " source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
        )
    return DataError(
        f"{count} updates do not carry columns whose old values the target's rows should have, but it has no such rows",
        code="RPL-5401",
        table=table,
        position=position,
        hint="rows were removed at the target by another program: copy the table again: `replicator table resync NAME TABLE`",
    )


def in_several_partitions(table: TableId, position: Position, keys: int) -> DataError:
    """What to say of keys that several partitions of a log have changes of."""
    return DataError(
        f"{keys} keys have changes in several partitions of the log, whose order is unknown",
        code="RPL-5406",
        table=str(table),
        position=str(position),
        hint="have all records of a key written to one partition of one topic, let the source's connector snapshot its tables again,"
        " set the source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
    )


def _by_key(origin: Int64s, which: Bools, count: int) -> Int64s:
    """For each of `count` keys the index of the row in `which` whose origin it is, -1 for none."""
    found = np.full(count, -1, np.int64)
    found[origin[which]] = np.flatnonzero(which)
    return found


def _ordered(keys: pa.Table, deletes: pa.Table) -> tuple[pa.Table, Bools]:
    """Keys, of which the first are `deletes`, in the order that suits the search, and which of them are of `deletes`.

    Very many whole numbers are searched in ascending order: sorted here, once, and not in each of its threads.
    """
    only = keys.column(0)
    if not searches_sorted(keys):
        return keys.combine_chunks(), np.arange(keys.num_rows) < deletes.num_rows
    values = np.concatenate([chunk.to_numpy() for chunk in only.chunks])
    values.sort()
    deleted = np.zeros(len(values), np.bool_)
    deleted[np.searchsorted(values, deletes.column(0).to_numpy())] = True
    return pa.Table.from_arrays([pa.array(values)], schema=keys.schema), deleted
