"""Applies the net changes of a table with a key: rows that come into new files, rows that go out of the old ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges, combined
from replicator_sdk.errors import DataError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.net_change import encode_rows as code_rows
from replicator_sdk.net_change.partial_rows import IncompleteRows, SealedRows
from replicator_target_iceberg.apply.matching import Found, Sought, find
from replicator_target_iceberg.apply.row_changes import Removal, RowChanges, take_out
from replicator_target_iceberg.files.data_file import FileWriter
from replicator_target_iceberg.files.form import FileForm
from replicator_target_iceberg.files.live_files import LiveFiles
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.schema.encoding import encode_columns, encode_rows
from replicator_target_iceberg.schema.stamps import stamps
from replicator_target_iceberg.schema.table_form import TableForm
from replicator_target_iceberg.schema.types import Layout, field_id

register("iceberg.files.written")
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how an apply works.

    Attributes:
        storage: The table's files.
        files: Those of the version it starts from.
        layout: The table's columns.
        format_version: Of the table.
        target_bytes: How large new files are.
        form: How they are written.
        chosen_by: The identity of the column by which files are chosen; None for none.
        table: What the table has beside the source's columns.
        highest: The highest sequence number of the table's changes.
    """

    storage: Storage
    files: LiveFiles
    layout: Layout
    format_version: int
    target_bytes: int
    form: FileForm
    chosen_by: int | None
    table: TableForm
    highest: int = 0


class KeyedApply:
    """One run of changes of a table with a key; made for it, used once.

    Attributes:
        missing: Deletes of rows that were not there, and updates that are dropped since their row is gone by now.
    """

    def __init__(self, place: Place, changes: TableChanges) -> None:
        self._place, self._changes = place, changes
        self._key = changes.schema.primary_key
        self._written_keys: list[pa.Table] = []
        self._incomplete = IncompleteRows(place.layout.arrow)
        self.missing = 0

    def run(self) -> RowChanges:
        """Write all files; in effect once the returned changes are committed.

        Raises:
            DataError: When an update lacks values of a row that the table does not have.
            SnapshotNeededError: When such values are in no known place.
        """
        plan = NetPlan(self._changes.batches, self._changes.schema, overlap=self._changes.overlap)
        place, changes = self._place, RowChanges()
        try:
            with FileWriter(place.storage, place.target_bytes, place.form, place.chosen_by) as writer:
                for part in plan.parts():
                    self._take(part, writer)
                removals = self._remove(plan, writer)
                changes.add = writer.finish()
                take_out(place.storage, removals, place.format_version, changes)
        finally:
            self._incomplete.close()
        failpoint("iceberg.files.written")
        return changes

    def _take(self, part: Upserts, writer: FileWriter) -> None:
        """Write the complete rows, keep the others, and note which keys they replace."""
        rows = encode_rows(part.rows, self._place.layout, stamps(self._place.table, part.sequence, part.timestamp))
        keys = encode_columns(part.rows, self._key, self._place.layout)
        self._written_keys.append(keys.filter(pa.array(~part.fresh)))
        if not len(part.origin_rows):
            writer.add(rows)
            return
        if self._changes.overlap:
            refuse_moved(part, self._changes)
        lacking = np.zeros(len(part), np.bool_)
        lacking[part.origin_rows] = True
        writer.add(rows.filter(pa.array(~lacking)))
        self._incomplete.add(
            rows.take(pa.array(part.origin_rows)),
            {name: mask[part.origin_rows] for name, mask in part.unresolved.items()},
            encode_columns(part.origin, self._key, self._place.layout),
            part.sequence[part.origin_rows],
            deletes=False,
        )

    def _remove(self, plan: NetPlan, writer: FileWriter) -> list[Removal]:
        """Find the rows that go; complete the rows kept and write them."""
        deletes = encode_columns(plan.deletes, self._key, self._place.layout)
        size = self._incomplete.size
        held = self._incomplete.seal() if size else None
        origins = [] if held is None else [held.origin]
        asked = pa.concat_tables([deletes, *self._written_keys, *origins])
        codes, count = (
            code_rows([combined(column) for column in asked.columns]) if asked.num_rows else (np.empty(0, np.int64), 0)
        )
        first = np.empty(count, np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of equal indexes numpy keeps the last: the first row
        fetch = () if held is None else held.fetch
        sought = Sought(asked.take(pa.array(first)).combine_chunks(), fetch)
        waiting = np.full(count, -1, np.int64)
        waiting[codes[len(codes) - size :]] = np.arange(size)
        done, deletes_found, removals = np.zeros(size, np.bool_), 0, []
        is_deleted = np.zeros(count, np.bool_)
        is_deleted[codes[: deletes.num_rows]] = True
        for found in find(self._place.storage, self._place.files, sought):
            removals.append(Removal(found.file, found.gone, found.places))
            deletes_found += int(np.count_nonzero(is_deleted[found.keys]))
            if held is not None:
                _complete(held, found, waiting, writer, done)
        if not done.all():
            self._finish_lost(int(np.count_nonzero(~done)))
        self.missing += 0 if self._changes.overlap else max(0, deletes.num_rows - deletes_found)
        return removals

    def _finish_lost(self, count: int) -> None:
        """Rows whose old row is not in the table: a change to come deletes them, or their values are nowhere."""
        if self._changes.drops_lost_updates:
            self.missing += count
            return
        raise lost_updates(self._changes, count)


def _complete(held: SealedRows, found: Found, waiting: Int64s, writer: FileWriter, done: Bools) -> None:
    """Write the rows kept whose old values were found in one file."""
    rows = waiting[found.keys]
    here = np.flatnonzero(rows >= 0)
    # A key that another program has written twice goes twice, and comes once.
    here = here[np.unique(rows[here], return_index=True)[1]]
    here = here[~done[rows[here]]]
    if len(here):
        writer.add(held.complete(rows[here], found.fetched.take(pa.array(here))))
        done[rows[here]] = True


def refuse_moved(part: Upserts, changes: TableChanges) -> None:
    """In an overlap it is not known whether the copy read a row before or after it moved to another key.

    Raises:
        SnapshotNeededError: RPL-5423 when `part` has such rows.
    """
    own = part.rows.select(list(changes.schema.primary_key)).take(pa.array(part.origin_rows))
    both = pa.concat_tables([own, part.origin.cast(own.schema)])
    codes, _ = code_rows([combined(column) for column in both.columns])
    if (codes[: own.num_rows] != codes[own.num_rows :]).any():
        raise SnapshotNeededError(
            "rows moved to another key while an interrupted copy of the table went on, and the log does not carry all"
            " their columns",
            code="RPL-5423",
            table=str(changes.table),
            hint="nothing to do: the table is copied again",
        )


def lost_updates(changes: TableChanges, count: int) -> DataError:
    """What to say of updates whose old rows are not in the table."""
    table, position = str(changes.table), str(changes.identity.position)
    if changes.overlap:
        return DataError(
            f"{count} updates do not carry columns whose values are in no row of the table",
            code="RPL-5425",
            table=table,
            position=position,
            hint="have the source log whole rows (in PostgreSQL: ALTER TABLE … REPLICA IDENTITY FULL), then copy the table again:"
            " `replicator table resync NAME TABLE`; where it is read from topics let its connector snapshot its tables again instead, set the"
            " source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
        )
    return DataError(
        f"{count} updates do not carry columns whose old values the target's rows should have, but it has no such rows",
        code="RPL-5421",
        table=table,
        position=position,
        hint="rows were removed at the target by another program: copy the table again: `replicator table resync NAME TABLE`",
    )


def choosing_column(layout: Layout, key: tuple[str, ...]) -> int | None:
    """The identity of the column by whose range files are chosen: the first of the key; None without one."""
    return field_id(layout.field(key[0])) if key and key[0] in layout else None
