"""Builds a change batch from the changes of one table: rows after, rows or keys before, and what was not sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s
from replicator_sdk.batch import ChangeBatch, Refusal
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.binlog.batches.column_defaults import filled
from replicator_source_mysql.binlog.batches.json_updates import with_diffs
from replicator_source_mysql.binlog.batches.ordered_columns import Changes, Column
from replicator_source_mysql.binlog.batches.table_plan import Reading
from replicator_source_mysql.binlog.event import Events
from replicator_source_mysql.binlog.rows.row_events import DELETE, INSERT, UPDATE, Run
from replicator_source_mysql.hints import COPY_TABLE_AGAIN


def make_batch(events: Events, reading: Reading, runs: Sequence[Run], first: Int64s) -> ChangeBatch:
    """The batch of all changes in `runs`.

    Args:
        events: What the runs are of.
        reading: How to read their table.
        runs: Runs of that table.
        first: For each event the rank of its first row.

    Raises:
        NeedsUserError: When the images lack a column that can neither be known nor left open, or the server leaves generated
            columns out of them, as MariaDB 11.8.9 does.
        DataError: On a value outside its type's range, when the policy is to fail.
    """
    return _Maker(events, reading, runs, first).make()


class _Maker:
    def __init__(self, events: Events, reading: Reading, runs: Sequence[Run], first: Int64s) -> None:
        self._events, self._reading, self._runs = events, reading, runs
        self._schema = reading.plan.schema
        self._changes = Changes(runs, first, reading.ranks, reading.key or reading.ranks)
        self._refused: dict[str, Refusal] = {}

    def make(self) -> ChangeBatch:
        self._refuse_without_generated()
        changes, fields = self._changes, list(self._schema.arrow)
        row: list[pa.Array] = []
        unchanged: dict[str, pa.BooleanArray] = {}
        for place, rank in enumerate(self._reading.ranks):
            values, open_ = self._after(place, rank)
            row.append(values)
            if open_ is not None:
                unchanged[self._schema.columns[place].name] = pa.array(open_)
        before = self._before(row)
        return ChangeBatch(
            self._schema,
            pa.array(changes.op),
            pa.StructArray.from_arrays(row, fields=fields),
            before,
            changes.ordinals,
            unchanged,
            before_is_full=before is not None and not self._reading.key,
            refused=self._refused,
        )

    def _after(self, place: int, rank: int) -> tuple[pa.Array, Bools | None]:
        """One column of the rows, and for which UPDATEs it is not known."""
        column = self._changes.after(rank)
        diffs = self._diffs(rank)
        if diffs is None:
            values, refusal = self._convert(place, column)
            if refusal is not None:
                self._refused[self._schema.columns[place].name] = refusal
        else:
            values = with_diffs(self._events.data, self._reading, place, column, self._changes.before(rank), diffs)
        if column.absent is None:
            return values, None
        is_insert = self._changes.is_op(INSERT)
        if (column.absent & is_insert).any():
            self._refuse_keyless(column.absent)
            values = filled(values, column.absent & is_insert, self._reading, place, self._example(rank))
        left = column.absent & ~is_insert
        if not left.any():
            return values, None
        self._refuse_keyless(left)
        if rank in self._reading.key:
            raise self._lacking_key(place, rank)
        return values, left

    def _diffs(self, rank: int) -> Bools | None:
        document = self._reading.documents.get(rank)
        return None if document is None else self._changes.diffs(rank, document)

    def _convert(self, place: int, column: Column) -> tuple[pa.Array, Refusal | None]:
        data, reads = self._events.data, self._reading.columns[place]
        return reads.convert_marked(data, column.start, column.length, column.present)

    def _before(self, row: list[pa.Array]) -> pa.StructArray | None:
        """Whole rows for a table without a key; else the keys of DELETEs and of UPDATEs that changed theirs."""
        changes, key = self._changes, self._reading.key
        valid = changes.is_op(DELETE)
        is_update = changes.is_op(UPDATE)
        if not (valid.any() or is_update.any()):
            return None
        wanted = [place for place, rank in enumerate(self._reading.ranks) if not key or rank in key]
        arrays: dict[int, pa.Array] = {}
        moved = np.zeros(len(changes), np.bool_)
        for place in wanted:
            rank = self._reading.ranks[place]
            column = changes.before(rank)
            if column.absent is not None:
                self._refuse_keyless(column.absent)
                raise self._lacking_key(place, rank)
            arrays[place], _ = self._convert(place, column)  # what is refused there is NULL at the target as well
            if key and is_update.any():
                moved |= _differ(arrays[place], row[place])
        valid = valid | (is_update & moved) if key else valid | is_update
        if not valid.any():
            return None
        fields = list(self._schema.arrow)
        columns = [
            arrays[place] if place in arrays else pa.nulls(len(changes), f.type) for place, f in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~valid))

    def _example(self, rank: int) -> str:
        """Where the first event is whose image lacks a column."""
        for run in self._runs:
            for side in (run.before, run.after):
                if side is not None and rank not in side[0].columns:
                    return str(self._events.place(int(run.index[0])))
        return str(self._events.place(int(self._runs[0].index[0])))

    def _refuse_without_generated(self) -> None:
        """Refuse images that have every column but generated ones: whether these changed is unknown then.

        Where other columns are missing too (`binlog_row_image` is not FULL), a generated column that is missing did not change,
        unless the server never writes it.
        """
        definition = self._reading.plan.definition.columns
        lacking = [rank for rank in self._reading.ranks if definition[rank].is_generated and self._is_lacking(rank)]
        if not lacking:
            return
        is_logged = self._reading.plan.logs_generated
        others = {rank for rank, column in enumerate(definition) if is_logged and not column.is_generated}
        for run in self._runs:
            sides = (run.after,) if self._reading.key else (run.before, run.after)
            images = [set(side[0].columns) for side in sides if side is not None]
            gone = [rank for image in images if others <= image for rank in lacking if rank not in image]
            if gone:
                raise self._lacking_generated(definition[gone[0]].name, gone[0])

    def _lacking_generated(self, column: str, rank: int) -> NeedsUserError:
        return NeedsUserError(
            f"the server leaves the generated column {column!r} out of the rows of its log",
            code="RPL-3716",
            table=str(self._schema.table),
            position=self._example(rank),
            hint="leave the generated columns out by the table's `columns`, and compute them where the table is read",
        )

    def _refuse_keyless(self, absent: Bools) -> None:
        if not self._reading.key and absent.any():
            lacking = [rank for rank in self._reading.ranks if self._is_lacking(rank)]
            raise NeedsUserError(
                "the table has no primary key and the log does not hold whole rows of it",
                code="RPL-3714",
                table=str(self._schema.table),
                position=self._example(lacking[0] if lacking else self._reading.ranks[0]),
                hint="SET GLOBAL binlog_row_image = 'FULL' (sessions keep theirs until they reconnect), or give the table a primary "
                f"key; then {COPY_TABLE_AGAIN}",
            )

    def _is_lacking(self, rank: int) -> bool:
        sides = [side for run in self._runs for side in (run.before, run.after) if side is not None]
        return any(rank not in shape.columns for shape, _ in sides)

    def _lacking_key(self, place: int, rank: int) -> NeedsUserError:
        return NeedsUserError(
            f"a row of the log lacks the key column {self._schema.columns[place].name!r}",
            code="RPL-3705",
            table=str(self._schema.table),
            position=self._example(rank),
            hint=f"SET GLOBAL binlog_row_image = 'FULL' (sessions keep theirs until they reconnect), then {COPY_TABLE_AGAIN}",
        )


def _differ(one: pa.Array, other: pa.Array) -> Bools:
    """Where two columns differ; NULL equals NULL."""
    equal = pc.equal(one, other)
    if not equal.null_count:
        return ~np.asarray(equal.to_numpy(zero_copy_only=False))
    same = pc.or_(pc.fill_null(equal, fill_value=False), pc.and_(pc.is_null(one), pc.is_null(other)))
    return ~np.asarray(same.to_numpy(zero_copy_only=False))
