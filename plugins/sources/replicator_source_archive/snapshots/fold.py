"""Applies changes to the rows of a table that pass by, a batch of columns at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from replicator_sdk import AlterKind
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.net_change import encode_rows, net_bag, net_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replicator_sdk import ChangeBatch, DDLEvent, Int64s, TableSchema
    from replicator_sdk.net_change import Upserts


def with_changes(
    rows: Iterator[pa.RecordBatch], changes: Sequence[ChangeBatch], schema: TableSchema
) -> Iterator[pa.RecordBatch]:
    """The rows after these changes, in any order.

    Args:
        rows: The rows before, in the columns of `schema`; taken while the result is.
        changes: Numbered, in order, under `schema`; held in memory.
        schema: The table's.
    """
    return _by_key(rows, changes, schema) if schema.primary_key else _as_bag(rows, changes, schema)


def with_structure(rows: Iterator[pa.RecordBatch], event: DDLEvent) -> Iterator[pa.RecordBatch]:
    """The rows after an ALTER_TABLE, in the columns of its schema.

    Raises:
        NeedsUserError: RPL-3559 when values of a column do not fit its new type.
    """
    schema = event.schema
    assert schema is not None
    for batch in rows:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for step in event.alters:
            if step.kind in {AlterKind.DROP_COLUMN, AlterKind.RENAME_COLUMN}:
                assert step.previous is not None
                values = columns.pop(step.previous.name)
                if step.column is not None:
                    columns[step.column.name] = values
            elif step.kind is AlterKind.ADD_COLUMN:
                assert step.column is not None
                value = pa.array([step.default], step.column.type.arrow)
                columns[step.column.name] = value.take(pa.array(np.zeros(batch.num_rows, np.int32)))
        yield _cast(columns, schema)


def _cast(columns: dict[str, pa.Array], schema: TableSchema) -> pa.RecordBatch:
    try:
        arrays = [columns[column.name].cast(column.type.arrow) for column in schema.columns]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise NeedsUserError(
            "values of a column do not fit the type that it was given later, so the table cannot be put together",
            code="RPL-3559",
            hint="copy it again in the pipeline that writes the archive: `replicator table resync`",
            table=str(schema.table),
        ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def _by_key(
    rows: Iterator[pa.RecordBatch], changes: Sequence[ChangeBatch], schema: TableSchema
) -> Iterator[pa.RecordBatch]:
    net = net_changes(changes, schema, overlap=True)
    written, key = net.written, list(schema.primary_key)
    gone = pa.concat_tables([net.deletes.select(key), written.rows.select(key)]).combine_chunks()
    origin = written.origin.combine_chunks()
    found: list[tuple[Int64s, pa.RecordBatch]] = []
    for batch in rows:
        here = batch.select(key)
        at = _matches(origin, here)
        if len(at) and (at >= 0).any():
            places = np.flatnonzero(at >= 0)
            found.append((places, batch.take(pa.array(at[places]))))
        kept = _matches(here, gone) < 0
        if kept.any():
            yield batch if kept.all() else batch.filter(pa.array(kept))
    yield from _filled(written, found, schema).to_batches()


def _filled(written: Upserts, found: list[tuple[Int64s, pa.RecordBatch]], schema: TableSchema) -> pa.Table:
    """The written rows, with values that only the rows before had; without those of which there was no row before."""
    rows = written.rows
    if not len(written.origin_rows):
        return rows
    place = np.full(len(written), -1, np.int64)
    before = pa.Table.from_batches([batch for _, batch in found], schema.arrow)
    if found:
        place[written.origin_rows[np.concatenate([places for places, _ in found])]] = np.arange(before.num_rows)
    for name, mask in written.unresolved.items():
        index = rows.schema.get_field_index(name)
        both = pa.chunked_array([*rows.column(index).chunks, *before.column(name).chunks], schema[name].type.arrow)
        chosen = np.where(mask & (place >= 0), len(written) + place, np.arange(len(written)))
        rows = rows.set_column(index, rows.schema.field(index), both.take(pa.array(chosen)))
    lost = np.zeros(len(written), np.bool_)
    lost[written.origin_rows] = place[written.origin_rows] < 0
    return rows.filter(pa.array(~lost))


def _matches(wanted: pa.Table | pa.RecordBatch, among: pa.Table | pa.RecordBatch) -> Int64s:
    """For each row of `wanted` the place of one that is equal in `among`, or -1. NULL equals NULL."""
    if not wanted.num_rows or not among.num_rows:
        return np.full(wanted.num_rows, -1, np.int64)
    both = [_joined(wanted.column(name), among.column(name)) for name in wanted.schema.names]
    codes, count = encode_rows(both)
    place = np.full(count, -1, np.int64)
    place[codes[wanted.num_rows :]] = np.arange(among.num_rows)
    return place[codes[: wanted.num_rows]]


def _joined(one: pa.Array | pa.ChunkedArray, other: pa.Array | pa.ChunkedArray) -> pa.Array:
    parts = [
        part for column in (one, other) for part in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    return pa.concat_arrays(parts)


def _as_bag(
    rows: Iterator[pa.RecordBatch], changes: Sequence[ChangeBatch], schema: TableSchema
) -> Iterator[pa.RecordBatch]:
    net = net_bag(changes, schema)
    removed = net.rows.filter(pa.array(net.counts < 0)).combine_chunks()
    left = -net.counts[net.counts < 0]
    for batch in rows:
        which = _matches(batch, removed)
        kept = np.ones(batch.num_rows, np.bool_)
        hit = np.flatnonzero(which >= 0)
        by_row = hit[np.argsort(which[hit], kind="stable")]
        row, first, count = np.unique(which[by_row], return_index=True, return_counts=True)
        taken = np.minimum(count, left[row])
        rank = np.arange(len(by_row)) - np.repeat(first, count)
        kept[by_row[rank < np.repeat(taken, count)]] = False
        left[row] -= taken
        if kept.any():
            yield batch.filter(pa.array(kept))
    added = np.flatnonzero(net.counts > 0)
    yield from net.rows.take(pa.array(np.repeat(added, net.counts[added]))).combine_chunks().to_batches()
