"""Writes each change of a table as a row of its own. Nothing of the table is read, but for changes that do not say all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import ChangeBatch, TableChanges, combined
from replicator_sdk.event import DMLOperation
from replicator_sdk.merge_on_read.former_watermarks import FormerWatermarks
from replicator_sdk.merge_on_read.freshness import by_freshness, last_of_each
from replicator_sdk.merge_on_read.keys import WrittenKeys
from replicator_sdk.merge_on_read.tombstones import Tombstones
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_sdk.net_change.keyed_table import KeyedTable
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.net_change.partial_rows import IncompleteRows, SealedRows

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_NOWHERE: Final = -1


class AppendedTable(KeyedTable):
    """What a target says of a table that rows are appended to; used by one thread."""

    @abstractmethod
    def encode(self, rows: pa.Table, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8]) -> pa.Table:
        """Rows as the table's files have them, none of them marked as a deleted one.

        Args:
            rows: Columns of the source by their names; one that is not there is NULL.
            sequence: The number of each row's change.
            timestamp: Its commit time, microseconds since 1970 UTC; -1 for none.
            codes: Its `DMLOperation`.
        """

    @abstractmethod
    def find(self, keys: pa.Table, fetch: Sequence[pa.Field]) -> Iterator[tuple[Int64s, pa.Table]]:
        """All rows that the table has of keys, in no order: for each which of `keys` it has, and the columns of `fetch`.

        Args:
            keys: As `encode_keys` returns them, each once.
            fetch: As `field` returns them.
        """

    @abstractmethod
    def without_watermark(self) -> Exception:
        """Returns the error for a row that moved to another key, and of which the log has no watermark."""


class Appender:
    """One run of changes of a table; made for it, used once.

    Args:
        table: The table.
        changes: The changes.
        keys: The table's.
        numbering: How the rows are numbered.
        partitions: For each batch the partition of the log it is from; empty where the batches are in the source's order.
        collects_keys: Whether `keys` is wanted.

    Attributes:
        keys: The keys that rows were written of, each once.
        missing: Updates that are dropped since their row is gone by now.
        highest: The highest number that a row was given, or that the table had.
    """

    def __init__(
        self,
        table: AppendedTable,
        changes: TableChanges,
        keys: WrittenKeys,
        numbering: Numbering,
        *,
        partitions: Sequence[int] = (),
        collects_keys: bool = False,
    ) -> None:
        self._table, self._changes, self._keys, self._schema = table, changes, keys, changes.schema
        self._added = numbering.added
        self._partitions = partitions
        self._collects_keys = collects_keys
        definition = keys.definition
        self._tombstones = Tombstones(table.field(keys.tombstone), definition.tombstone_string_key_value)
        self._watermarks = [table.field(name) for name in definition.watermark_keys]
        self._key_names = [table.field(name).name for name in self._schema.primary_key]
        self._incomplete: IncompleteRows | None = None
        self.keys: list[pa.Table] = []
        self.missing = 0
        self.highest = numbering.highest

    def write(self, add: Callable[[pa.Table], None]) -> None:
        """Give all rows to `add`, as the table's files have them.

        Raises:
            DataError: When an update lacks values of a row that the table does not have; or when a key has changes in several partitions.
            SnapshotNeededError: As `KeyedTable.refuse_moved`.
        """
        plan = NetPlan(
            self._batches, self._schema, overlap=self._changes.overlap, partitions=self._partitions, keeps_each=True
        )
        if plan.keys_in_several:
            raise self._table.in_several_partitions(plan.keys_in_several)
        self._former = FormerWatermarks.of(self._changes, plan.removed_by, self._keys.sent)
        try:
            start = 0
            for part in plan.parts():
                self._take(part, plan, start, add)
                start += len(part)
            if self._incomplete is not None:
                self._complete(self._incomplete.seal(), add)
        finally:
            if self._incomplete is not None:
                self._incomplete.close()
        if self.keys:
            self.keys = [_distinct(pa.concat_tables(self.keys))]

    def _batches(self) -> Iterator[ChangeBatch]:
        return (_with_deleted_rows(batch, self._keys.sent) for batch in self._changes.batches())

    def _take(self, part: Upserts, plan: NetPlan, start: int, add: Callable[[pa.Table], None]) -> None:
        """Write the complete rows of `part`, whose first change is the plan's change number `start`, and keep the others aside."""
        codes = plan.op[start : start + len(part)]
        deleted = codes == DMLOperation.DELETE
        sequence = part.sequence + self._added
        self.highest = max(self.highest, int(sequence.max(initial=0)))
        rows = self._tombstones.mark(self._table.encode(part.rows, sequence, part.timestamp, codes), deleted)
        low, high = np.searchsorted(plan.removed_by, [start, start + len(part)])
        if low < high:
            left = self._table.encode_keys(plan.deletes.slice(low, high - low))
            self._note_keys(left)
            places = plan.removed_by[low:high] - start
            for which, watermarks in self._left_with(part, rows, places, int(low)):
                add(self._left(part, places[which], left.take(pa.array(which)), watermarks))
        self._note_keys(rows)
        if len(part.origin_rows) == 0:
            add(rows)
            return
        if self._changes.overlap:
            self._table.refuse_moved(part)
        lacking = np.zeros(len(part), np.bool_)
        lacking[part.origin_rows] = True
        add(rows.filter(pa.array(~lacking)))
        self._keep(part, rows, deleted)

    def _keep(self, part: Upserts, rows: pa.Table, deleted: Bools) -> None:
        """Keep the rows of `part` aside that lack values which only the table has."""
        if self._incomplete is None:
            self._incomplete = IncompleteRows(rows.schema)
        origin = self._table.encode_keys(part.origin)
        for deletes in (False, True):
            of_kind = np.flatnonzero(deleted[part.origin_rows] == deletes)
            places = part.origin_rows[of_kind]
            if len(places):
                masks = {self._table.field(name).name: mask[places] for name, mask in part.unresolved.items()}
                self._incomplete.add(
                    rows.take(pa.array(places)),
                    masks,
                    origin.take(pa.array(of_kind)),
                    part.sequence[places],
                    deletes=deletes,
                )

    def _left_with(
        self, part: Upserts, rows: pa.Table, places: Int64s, first: int
    ) -> Iterator[tuple[Int64s, dict[str, pa.Array]]]:
        """Which watermarks tombstones of keys that rows have left get: those of the row before, where the log has them, as a deleted
        row's; else those of the row that moved.

        Args:
            part: The changes.
            rows: As the table holds them.
            places: Which of them left a key.
            first: How many moves were before these.

        Raises:
            DataError: When a watermark is only in the table.
        """
        sent = self._keys.sent
        known = self._former.known[first : first + len(places)]
        yield np.flatnonzero(known), self._former.of_moves(first + np.flatnonzero(known))
        others = places[~known]
        if any(part.unresolved[name][others].any() for name in sent if name in part.unresolved):
            raise self._table.without_watermark()
        taken = {name: combined(rows.column(self._table.field(name).name)) for name in sent}
        yield np.flatnonzero(~known), {name: column.take(pa.array(others)) for name, column in taken.items()}

    def _left(self, part: Upserts, places: Int64s, keys: pa.Table, watermarks: dict[str, pa.Array]) -> pa.Table:
        """Tombstones of `keys`, which the rows at `places` have left."""
        codes = np.full(len(places), DMLOperation.DELETE, np.int8)
        own = dict(zip(self._schema.primary_key, map(combined, keys.columns), strict=True))
        sequence, timestamp = part.sequence[places] + self._added, part.timestamp[places]
        made = self._table.encode(pa.table(own | watermarks), sequence, timestamp, codes)
        return self._tombstones.mark(made, np.ones(len(places), np.bool_))

    def _note_keys(self, rows: pa.Table) -> None:
        if self._collects_keys:
            self.keys.append(_distinct(rows.select(self._key_names)))

    def _complete(self, held: SealedRows, add: Callable[[pa.Table], None]) -> None:
        """Write the rows kept aside, with what they lack from the latest rows of the table.

        A deleted row that the table does not have keeps NULL for what it lacks: there is nothing that it could be older than.
        """
        codes, count = code_rows([combined(column) for column in held.origin.columns])
        place, old = self._latest(held, codes, count)
        found = np.flatnonzero(place != _NOWHERE)
        if len(found):
            add(held.complete(found, old.take(pa.array(place[found]))))
        is_lost = place == _NOWHERE
        add(held.rows.take(pa.array(np.flatnonzero(is_lost & held.deletes))))
        lost = np.flatnonzero(is_lost & ~held.deletes)
        if len(lost) and not self._changes.drops_lost_updates:
            raise self._table.lost(len(lost), int(held.sequence[lost[0]]))
        self.missing += len(lost)

    def _latest(self, held: SealedRows, codes: Int64s, count: int) -> tuple[Int64s, pa.Table]:
        """For each row of `held` the index of its key's latest row, -1 where that is a tombstone or there is none; and these rows."""
        first = np.empty(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        keys = held.origin.take(pa.array(first)).combine_chunks()
        fetch = {field.name: field for field in (*held.fetch, *self._watermarks, self._tombstones.field)}
        found = [self._newest(which, rows) for which, rows in self._table.find(keys, tuple(fetch.values()))]
        key = np.concatenate([np.empty(0, np.int64), *(which for which, _ in found)])
        every = pa.concat_tables([pa.schema(list(fetch.values())).empty_table(), *(rows for _, rows in found)])
        key, old = self._newest(key, every)
        # A row that the source itself marks as deleted is there, with values.
        alive = np.flatnonzero(
            np.ones(len(key), np.bool_) if self._keys.tombstone_is_sent else ~self._tombstones.are(old)
        )
        place = np.full(count, _NOWHERE, np.int64)
        place[key[alive]] = alive
        return place[codes], old

    def _newest(self, key: Int64s, rows: pa.Table) -> tuple[Int64s, pa.Table]:
        """Of rows of keys the latest of each, and which key it has."""
        order = by_freshness(key, [rows.column(field.name) for field in self._watermarks], self._tombstones.are(rows))
        latest = order[last_of_each(key[order])]
        return key[latest], rows.take(pa.array(latest))


def _with_deleted_rows(batch: ChangeBatch, watermarks: Sequence[str]) -> ChangeBatch:
    """The same, where the row of each DELETE is the row before it, as far as the log has it.

    Args:
        batch: The changes.
        watermarks: Columns that a deleted row has to have, too: where the log does not have them, they are looked for as those that an
            update did not send.
    """
    deleted = batch.op.to_numpy(zero_copy_only=False) == DMLOperation.DELETE
    if batch.before is None or not deleted.any():
        return batch
    mask = pa.array(deleted)
    columns = [pc.if_else(mask, old, new) for old, new in zip(batch.before.flatten(), batch.row.flatten(), strict=True)]
    unchanged = dict(batch.unchanged)
    for name in () if batch.before_is_full else watermarks:
        unchanged[name] = pc.or_(unchanged[name], mask) if name in unchanged else mask
    rows = pa.StructArray.from_arrays(columns, fields=list(batch.schema.struct))
    return replace(batch, row=rows, unchanged=unchanged)


def _distinct(keys: pa.Table) -> pa.Table:
    codes, count = code_rows([combined(column) for column in keys.columns])
    first = np.empty(count, np.int64)
    first[codes] = np.arange(len(codes))
    return keys.take(pa.array(first))
