"""Writes each change of a table as a row of its own. Nothing of the table is read, but for changes that do not say all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import ChangeBatch, TableChanges, combined
from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.failpoint import failpoint
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_target_delta.apply.key_lookup import Place, find
from replicator_target_delta.apply.keyed import in_several_partitions, lost_updates, refuse_moved
from replicator_target_delta.apply.partial_rows import IncompleteRows, SealedRows
from replicator_target_delta.apply.row_matching import Sought
from replicator_target_delta.files.file_writer import FileWriter
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.merge_on_read.former_watermarks import FormerWatermarks
from replicator_target_delta.merge_on_read.freshness import by_freshness, last_of_each
from replicator_target_delta.merge_on_read.tombstones import Tombstones
from replicator_target_delta.schema.encoding import encode_keys, encode_rows
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_form import TableForm

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Numbering:
    """How changes are numbered, so that each number is above those in the table: where a publication loses a table the same log is
    numbered lower than before, and the numbers of a Kafka topic are of its partition.

    Attributes:
        highest: The highest number in the table.
        lowest: The lowest of the changes.
    """

    highest: int
    lowest: int

    @property
    def added(self) -> int:
        """What is added to the numbers of the changes; 0 where they are above those in the table, as nearly always."""
        return max(0, self.highest + 1 - self.lowest)


class AppendApply:
    """One run of changes of a table; made for it, used once.

    Args:
        place: Where and how.
        changes: The changes.
        stamper: Makes the metadata columns.
        form: The table's form, with a definition.
        numbering: How the rows are numbered.
        partitions: As for `KeyedApply`.
        collects_keys: Whether `keys` is wanted.

    Attributes:
        keys: The keys that rows were written of, each once.
        missing: Updates that are dropped since their row is gone by now.
        highest: The highest number that a row was given.
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
        assert form.definition is not None
        self._place, self._changes, self._stamper, self._form = place, changes, stamper, form
        self._schema, self._layout = changes.schema, place.state.layout
        self._added = numbering.added
        self._partitions = partitions
        self._collects_keys = collects_keys
        self._tombstones = Tombstones(self._layout, form.definition)
        self._watermarks = [self._layout[name].arrow for name in form.definition.watermark_keys]
        self._key_names = [self._layout[name].physical for name in self._schema.primary_key]
        self._incomplete = IncompleteRows(self._layout.physical)
        self.keys: list[pa.Table] = []
        self.missing = 0
        self.highest = numbering.highest

    def write(self) -> list[DataFile]:
        """Write new files; in effect once they are committed.

        Raises:
            DataError: When an update lacks values of a row that the table does not have; or when a key has changes in several partitions.
            SnapshotNeededError: As `refuse_moved`.
        """
        plan = NetPlan(
            self._batches, self._schema, overlap=self._changes.overlap, partitions=self._partitions, keeps_each=True
        )
        if plan.keys_in_several:
            raise in_several_partitions(self._changes.table, self._changes.identity.position, plan.keys_in_several)
        self._former = FormerWatermarks.of(self._changes, plan.removed_by, self._form.sent)
        try:
            with FileWriter(self._place.storage, self._place.target_bytes) as writer:
                start = 0
                for part in plan.parts():
                    self._take(part, plan, start, writer)
                    start += len(part)
                if self._incomplete.size:
                    self._complete(self._incomplete.seal(), writer)
                files = writer.finish()
        finally:
            self._incomplete.close()
        failpoint("delta.files.written")
        if self.keys:
            self.keys = [_distinct(pa.concat_tables(self.keys))]
        return files

    def _batches(self) -> Iterator[ChangeBatch]:
        return (_with_deleted_rows(batch, self._form.sent) for batch in self._changes.batches())

    def _take(self, part: Upserts, plan: NetPlan, start: int, writer: FileWriter) -> None:
        """Write the complete rows of `part`, whose first change is the plan's change number `start`, and keep the others aside."""
        codes = plan.op[start : start + len(part)]
        deleted = codes == DMLOperation.DELETE
        sequence = part.sequence + self._added
        self.highest = max(self.highest, int(sequence.max(initial=0)))
        stamps = self._stamper.appended(sequence, part.timestamp, codes)
        rows = self._tombstones.mark(encode_rows(part.rows, self._layout, stamps), deleted)
        low, high = np.searchsorted(plan.removed_by, [start, start + len(part)])
        if low < high:
            left = encode_keys(plan.deletes.slice(low, high - low), self._schema, self._layout)
            self._note_keys(left)
            places = plan.removed_by[low:high] - start
            for which, watermarks in self._left_with(part, rows, places, int(low)):
                writer.add(self._left(part, places[which], left.take(pa.array(which)), watermarks))
        self._note_keys(rows)
        if len(part.origin_rows) == 0:
            writer.add(rows)
            return
        if self._changes.overlap:
            refuse_moved(part, self._changes)
        lacking = np.zeros(len(part), np.bool_)
        lacking[part.origin_rows] = True
        writer.add(rows.filter(pa.array(~lacking)))
        self._keep(part, rows, deleted)

    def _keep(self, part: Upserts, rows: pa.Table, deleted: Bools) -> None:
        """Keep the rows of `part` aside that lack values which only the table has."""
        origin = encode_keys(part.origin, self._schema, self._layout)
        for deletes in (False, True):
            of_kind = np.flatnonzero(deleted[part.origin_rows] == deletes)
            places = part.origin_rows[of_kind]
            if len(places):
                masks = {self._layout[name].physical: mask[places] for name, mask in part.unresolved.items()}
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
            DataError: RPL-5408 when a watermark is only in the table.
        """
        known = self._former.known[first : first + len(places)]
        yield np.flatnonzero(known), self._former.of_moves(first + np.flatnonzero(known))
        others = places[~known]
        if any(part.unresolved[name][others].any() for name in self._form.sent if name in part.unresolved):
            raise _without_watermark(self._changes)
        taken = {name: combined(rows.column(self._layout[name].physical)) for name in self._form.sent}
        yield np.flatnonzero(~known), {name: column.take(pa.array(others)) for name, column in taken.items()}

    def _left(self, part: Upserts, places: Int64s, keys: pa.Table, watermarks: dict[str, pa.Array]) -> pa.Table:
        """Tombstones of `keys`, which the rows at `places` have left."""
        codes = np.full(len(places), DMLOperation.DELETE, np.int8)
        stamps = self._stamper.appended(part.sequence[places] + self._added, part.timestamp[places], codes)
        own = dict(zip(self._schema.primary_key, map(combined, keys.columns), strict=True))
        made = encode_rows(pa.table(own | watermarks), self._layout, stamps)
        return self._tombstones.mark(made, np.ones(len(places), np.bool_))

    def _note_keys(self, rows: pa.Table) -> None:
        if self._collects_keys:
            self.keys.append(_distinct(rows.select(self._key_names)))

    def _complete(self, held: SealedRows, writer: FileWriter) -> None:
        """Write the rows kept aside, with what they lack from the latest rows of the table.

        A deleted row that the table does not have keeps NULL for what it lacks: there is nothing that it could be older than.
        """
        codes, count = code_rows([combined(column) for column in held.origin.columns])
        place, old = self._latest(held, codes, count)
        found = np.flatnonzero(place != _NOWHERE)
        if len(found):
            writer.add(held.complete(found, old.take(pa.array(place[found]))))
        is_lost = place == _NOWHERE
        writer.add(held.rows.take(pa.array(np.flatnonzero(is_lost & held.deletes))))
        lost = np.flatnonzero(is_lost & ~held.deletes)
        if len(lost) and not self._changes.drops_lost_updates:
            raise lost_updates(self._changes, len(lost), int(held.sequence[lost[0]]))
        self.missing += len(lost)

    def _latest(self, held: SealedRows, codes: Int64s, count: int) -> tuple[Int64s, pa.Table]:
        """For each row of `held` the index of its key's latest row, -1 where that is a tombstone or there is none; and these rows."""
        first = np.empty(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        keys = held.origin.take(pa.array(first)).combine_chunks()
        fetch = {field.name: field for field in (*held.fetch, *self._watermarks, self._tombstones.field)}
        sought = Sought(keys, np.ones(count, np.bool_), tuple(fetch.values()))
        matches = [match for _, match in find(self._place, sought)]
        old = pa.concat_tables(
            [pa.schema(list(fetch.values())).empty_table(), *(m.fetched for m in matches if m.fetched)]
        )
        key = np.concatenate([np.empty(0, np.int64), *(m.keys for m in matches)]).astype(np.int64)
        deleted = self._tombstones.are(old)
        order = by_freshness(key, [old.column(field.name) for field in self._watermarks], deleted)
        latest = order[last_of_each(key[order])]
        # A row that the source itself marks as deleted is there, with values.
        alive = latest if self._form.tombstone_is_sent else latest[~deleted[latest]]
        place = np.full(count, _NOWHERE, np.int64)
        place[key[alive]] = alive
        return place[codes], old


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


def _without_watermark(changes: TableChanges) -> DataError:
    return DataError(
        "a row moved to another key, and the log has no watermark of it",
        code="RPL-5408",
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="have the source log whole rows (in MySQL: binlog_row_image=FULL), or leave `watermarkKeys` out, then copy the table again:"
        " `replicator table resync NAME TABLE`",
    )
