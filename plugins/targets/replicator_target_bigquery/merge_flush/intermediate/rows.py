"""Changes as the rows of an intermediate table: key, value, partitionTime, i, batchNumber; whole columns, no Python per row.

`i` is made from the sequence number, so that it means the same change in every run: twice the number, plus one. An UPDATE
that moves a row to another key also deletes its old key, at twice the number: just before it writes the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s
from replicator_sdk.batch import ChangeBatch, TableChanges
from replicator_sdk.errors import DataError
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.api.jobs import now_microseconds
from replicator_target_bigquery.merge_flush.intermediate.key_column import key_array
from replicator_target_bigquery.schema.encoding import RowEncoding, columns_of

KEY: Final = "key"
VALUE: Final = "value"
PARTITION_TIME: Final = "partitionTime"
I: Final = "i"  # noqa: E741 - the name in docs/seeds.md#000-bigquery
BATCH_NUMBER: Final = "batchNumber"
_MICROSECONDS: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How changes are written as rows.

    Attributes:
        names: Source column → its name at the target.
        encoding: How values are encoded.
        deletes: Whether deletes count; if not, they and the old keys of moved rows are left out.
        partition_time: Whether rows carry the time that decides their partition.
        message_time: Whether that is the time the source committed them, not the time they were read.
    """

    names: Mapping[str, str]
    encoding: RowEncoding
    deletes: bool = True
    partition_time: bool = False
    message_time: bool = False


def streamed(changes: TableChanges, row_format: RowFormat, batch_number: int) -> Iterator[pa.RecordBatch]:
    """The rows of all changes, in any order: `i` carries the order."""
    for batch in changes.batches():
        codes: npt.NDArray[np.int8] = batch.op.to_numpy(zero_copy_only=False)
        deletes = codes == DMLOperation.DELETE
        if row_format.deletes:
            yield _written(batch, deletes, row_format, batch_number)
            yield from _moved(batch, codes == DMLOperation.UPDATE, row_format, batch_number)
        elif deletes.any():
            yield _written(batch, deletes, row_format, batch_number).take(pa.array(np.flatnonzero(~deletes)))
        else:
            yield _written(batch, deletes, row_format, batch_number)


def _written(batch: ChangeBatch, deletes: Bools, row_format: RowFormat, batch_number: int) -> pa.RecordBatch:
    """A row a change: with a NULL value for a delete."""
    after = columns_of(batch.row)
    keys = key_array(batch.schema, _keys(batch, after, deletes))
    values = value_array(batch.schema, after, row_format, deletes)
    times = _times(batch, row_format, None)
    return _rows(keys, values, times, 2 * _sequence(batch) + 1, batch_number)


def _moved(batch: ChangeBatch, updates: Bools, row_format: RowFormat, batch_number: int) -> Iterator[pa.RecordBatch]:
    """A delete for each key that an update leaves."""
    if batch.before is None or not updates.any():
        return
    given = updates & pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
    before, after = columns_of(batch.before), columns_of(batch.row)
    differs = np.zeros(len(batch), np.bool_)
    for name in batch.schema.primary_key:
        differs |= _differ(before[name], after[name])
    places = np.flatnonzero(given & differs)
    if not len(places):
        return
    taken = pa.array(places)
    keys = key_array(batch.schema, {name: before[name].take(taken) for name in batch.schema.primary_key})
    columns = {name: column.slice(0, 0) for name, column in after.items()}
    kind = value_array(batch.schema, columns, row_format, np.zeros(0, np.bool_)).type
    times = _times(batch, row_format, taken)
    yield _rows(keys, pa.nulls(len(places), kind), times, 2 * _sequence(batch)[places], batch_number)


def value_array(
    schema: TableSchema, columns: Mapping[str, pa.Array], row_format: RowFormat, missing: Bools
) -> pa.StructArray:
    """Whole rows as one column, NULL where `missing`."""
    names = row_format.names
    parts = [row_format.encoding.column(names[c.name], columns[c.name]) for c in schema.columns]
    fields = [
        pa.field(names[c.name], part.type, nullable=c.nullable) for c, part in zip(schema.columns, parts, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=pa.array(missing))


def _rows(keys: pa.Array, values: pa.Array, times: pa.Array, i: Int64s, batch_number: int) -> pa.RecordBatch:
    fields = [
        pa.field(KEY, keys.type),
        pa.field(VALUE, values.type),
        pa.field(PARTITION_TIME, _MICROSECONDS),
        pa.field(I, pa.int64(), nullable=False),
        pa.field(BATCH_NUMBER, pa.int64(), nullable=False),
    ]
    numbers = pa.array(np.full(len(keys), batch_number, np.int64))
    return pa.RecordBatch.from_arrays([keys, values, times, pa.array(i), numbers], schema=pa.schema(fields))


def _keys(batch: ChangeBatch, after: dict[str, pa.Array], deletes: Bools) -> dict[str, pa.Array]:
    """The key a change is about: of the row after it, for a delete of the row before."""
    if batch.before is None or not deletes.any():
        return after
    before, size = columns_of(batch.before), len(batch)
    places = pa.array(np.where(deletes, np.arange(size) + size, np.arange(size)))
    return {name: pa.concat_arrays([after[name], before[name]]).take(places) for name in batch.schema.primary_key}


def _differ(left: pa.Array, right: pa.Array) -> Bools:
    """Where two columns differ, NULL equal to NULL; nested ones count as different, which costs a row and no more."""
    if pa.types.is_nested(left.type):
        return np.ones(len(left), np.bool_)
    unequal = pc.fill_null(pc.not_equal(left, right), fill_value=True)
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    found: Bools = pc.and_not(unequal, both).to_numpy(zero_copy_only=False)
    return found


def _times(batch: ChangeBatch, row_format: RowFormat, places: pa.Array | None) -> pa.Array:
    size = len(batch) if places is None else len(places)
    if not row_format.partition_time:
        return pa.nulls(size, _MICROSECONDS)
    if not row_format.message_time:
        return pa.repeat(pa.scalar(now_microseconds(), _MICROSECONDS), size)
    if batch.timestamps is None or (batch.timestamps < 0).any():
        raise DataError(
            "the source does not send when a change was committed, by which its partition is chosen",
            code="RPL-6602",
            table=str(batch.table),
            hint="set `useMessageTimeDatePartitioning` to false",
        )
    times = pa.array(batch.timestamps).cast(_MICROSECONDS)
    return times if places is None else times.take(places)


def _sequence(batch: ChangeBatch) -> Int64s:
    assert batch.sequence_numbers is not None
    return batch.sequence_numbers
