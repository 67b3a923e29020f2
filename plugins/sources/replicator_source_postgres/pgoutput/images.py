"""Decodes row changes of one relation into a change batch: images before and after, and what was not sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s
from replicator_sdk.batch import ChangeBatch, Refusal
from replicator_sdk.errors import BugError, DataError
from replicator_sdk.schema import TableId, TableSchema, rename_table
from replicator_source_postgres.offset import lsn_text
from replicator_source_postgres.pgoutput.message import Relation
from replicator_source_postgres.pgoutput.tuples import Cells, gather, walk
from replicator_source_postgres.pgoutput.window import Window
from replicator_source_postgres.types.convert import Converter

_CODES = np.zeros(256, np.int8)
_CODES[list(b"IUD")] = (1, 2, 3)
_NEW, _KEY, _OLD = b"NKO"
_DELETE = 3


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """How to decode one relation.

    Attributes:
        schema: The schema of the batches.
        places: For each of its columns the rank of that column in the relation.
        converters: For each of its columns, what turns its text into Arrow.
    """

    schema: TableSchema
    places: tuple[int, ...]
    converters: tuple[Converter, ...]

    def renamed(self, table: TableId) -> RelationPlan:
        """The same for the table under another name."""
        converters = tuple(replace(converter, table=table) for converter in self.converters)
        return RelationPlan(rename_table(self.schema, table), self.places, converters)


@dataclass(frozen=True, slots=True)
class _Images:
    """The images of one side: which changes have one, and their cells by relation column."""

    rows: Int64s
    cells: list[Cells]
    count: int

    def column(self, data: pa.Buffer, place: int) -> pa.BinaryArray:
        rows = None if len(self.rows) == self.count else self.rows
        return gather(data, self.cells[place], rows, self.count)

    def unchanged(self, place: int) -> Bools | None:
        walked = self.cells[place].unchanged
        if walked is None:
            return None
        mask = np.zeros(self.count, np.bool_)
        mask[self.rows] = walked
        return mask


def decode_rows(window: Window, relation: Relation, plan: RelationPlan, index: Int64s, ordinals: Int64s) -> ChangeBatch:
    """The batch of the changes at `index` (ascending), all of `relation`."""
    op = _CODES[window.kind[index]]
    marker = window.data.take(window.start[index] + 5)
    old, new = _locate(window, relation, index, op, marker)
    data = pa.py_buffer(window.data)
    has_old, is_full = marker != _NEW, marker == _OLD
    fields = list(plan.schema.arrow)
    before, before_refused = (
        _before(plan, relation, data, old, full=bool(is_full.any())) if has_old.any() else (None, {})
    )
    row, unchanged, refused = [], {}, {}
    for rank, (place, converter) in enumerate(zip(plan.places, plan.converters, strict=True)):
        values, refusal = converter.convert_marked(new.column(data, place))
        absent = new.unchanged(place)
        if absent is not None and before is not None:
            # What the image before holds need not be read from the target: the value did not change.
            sent = absent & (is_full | (has_old & relation.columns[place].is_key))
            values = pc.if_else(pa.array(sent), before[rank], values)
            absent &= ~sent
            refusal = _joined(refusal, before_refused.get(rank), sent)
        if absent is not None and absent.any():
            _refuse_missing_key(plan, converter, window, index[absent])
            unchanged[converter.column.name] = pa.array(absent)
        if refusal is not None:
            refused[converter.column.name] = refusal
        row.append(values)
    return ChangeBatch(
        plan.schema,
        pa.array(op),
        pa.StructArray.from_arrays(row, fields=fields),
        None if before is None else pa.StructArray.from_arrays(before, fields=fields, mask=pa.array(~has_old)),
        ordinals,
        unchanged,
        before_is_full=bool(has_old.any() and (is_full | ~has_old).all()),
        refused=refused,
    )


def _joined(own: Refusal | None, before: Refusal | None, sent: Bools) -> Refusal | None:
    """What is refused of a column, where the values of `sent` are those of the image before."""
    if before is None:
        return own
    mask = pc.and_(before.mask, pa.array(sent))
    if own is not None:
        mask = pc.or_(mask, own.mask)
    return Refusal(mask, before.code, before.what) if pc.any(mask).as_py() else own


def _locate(
    window: Window, relation: Relation, index: Int64s, op: np.ndarray, marker: np.ndarray
) -> tuple[_Images, _Images]:
    """Walk the images before (`K` or `O`, if any) and after (`N`) of every change."""
    data, at, end, width = window.data, window.start[index], window.end[index], len(relation.columns)
    has_old, has_new = marker != _NEW, op != _DELETE
    known = (marker == _NEW) | (marker == _KEY) | (marker == _OLD)
    if not (known & np.where(op == 1, ~has_old, True) & np.where(has_new, True, has_old)).all():
        raise _broken(relation)
    old_rows, new_rows = np.flatnonzero(has_old), np.flatnonzero(has_new)
    new_at, stop = at + 6, at + 6
    cells_old: list[Cells] = []
    if len(old_rows):
        cells_old, stop_old = walk(data, at[old_rows] + 6, width, table=str(relation))
        both = has_new[old_rows]
        if (data.take(stop_old[both]) != _NEW).any() or any(c.unchanged is not None for c in cells_old):
            raise _broken(relation)
        new_at[old_rows] = stop_old + 1
        stop[old_rows] = stop_old
    cells_new, stop[new_rows] = walk(data, new_at[new_rows], width, table=str(relation))
    if (stop != end).any():
        raise _broken(relation)
    return _Images(old_rows, cells_old, len(index)), _Images(new_rows, cells_new, len(index))


def _before(
    plan: RelationPlan, relation: Relation, data: pa.Buffer, old: _Images, *, full: bool
) -> tuple[list[pa.Array], dict[int, Refusal]]:
    """The columns of the images before, and what is refused of them, by rank; a key image holds only the replica identity."""
    columns, refused = [], {}
    for rank, (place, converter) in enumerate(zip(plan.places, plan.converters, strict=True)):
        if not full and not relation.columns[place].is_key:
            columns.append(pa.nulls(old.count, converter.column.type.arrow))
            continue
        values, refusal = converter.convert_marked(old.column(data, place))
        columns.append(values)
        if refusal is not None:
            refused[rank] = refusal
    return columns, refused


def _refuse_missing_key(plan: RelationPlan, converter: Converter, window: Window, index: Int64s) -> None:
    if converter.column.name in plan.schema.primary_key:
        raise DataError(
            f"an update does not carry the key column {converter.column.name!r} (stored out of line, not sent)",
            code="RPL-3004",
            table=str(plan.schema.table),
            position=lsn_text(window.lsn(int(index[0]))),
            hint="set REPLICA IDENTITY FULL on the table, or upgrade the server's minor version",
        )


def _broken(relation: Relation) -> BugError:
    return BugError(
        "the log holds a row change whose images violate the protocol",
        code="RPL-3002",
        table=str(relation),
        hint="report it with the server's version; the log was not read past this change",
    )
