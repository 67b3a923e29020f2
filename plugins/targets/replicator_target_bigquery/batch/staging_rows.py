"""A batch as the rows of its staging table; whole Arrow columns, no Python per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s, with_nulls
from replicator_sdk.authoring.characters import matrix_rows
from replicator_sdk.batch import ChangeBatch, TableChanges, combined
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change import NetPlan, Upserts
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.schema.encoding import RowEncoding, columns_of, picked
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.names import LOG_PARTITION, STAGED_BEFORE, column_names
from replicator_target_bigquery.schema.width import require_width

BATCH_ID: Final = "_batch_id"
BATCH_TIME: Final = "_batch_time"
STAGED_SEQUENCE: Final = "_sequence_num"
OPERATION: Final = "_operation"
UNCHANGED: Final = "_unchanged"
_OPERATIONS: Final = pa.array(["INSERT", "UPDATE", "DELETE"])
STAGING_COLUMNS: Final = (
    Field(BATCH_TIME, "TIMESTAMP"),
    Field(BATCH_ID, "STRING"),
    Field(STAGED_SEQUENCE, "INT64"),
    Field(OPERATION, "STRING"),
    Field(UNCHANGED, "STRING"),
    Field(LOG_PARTITION, "INT64"),
)
"""What every staging table has besides `_before_…` and the table's own columns."""


@dataclass(frozen=True, slots=True)
class BatchStamp:
    """What marks the rows of one batch.

    Attributes:
        batch_id: The batch's identity.
        moment: When it was staged, microseconds since 1970; says when the rows may go, and nothing else.
        partition: The partition of a slice that the rows are from; None where one stream is read.
    """

    batch_id: str
    moment: int
    partition: int | None = None


def staging_fields(schema: TableSchema, layout: TableLayout, present: Sequence[Field] = ()) -> tuple[Field, ...]:
    """The columns of a staging table: what the change is, the row before it, the row after it.

    Args:
        schema: The table.
        layout: What its target table looks like.
        present: The columns of the target table: arrays and JSON have the same forms here.

    Raises:
        NeedsUserError: When two names become one, or there are more columns than BigQuery's tables have.
    """
    own = [f.name for f in STAGING_COLUMNS]
    names = column_names(schema, {*own, *layout.config.metadata_columns})
    column_names(schema, [*own, *(STAGED_BEFORE + name for name in names.values())])
    columns = [
        f if f.mode == "REPEATED" else replace(f, mode="NULLABLE") for f in layout.source_fields(schema, present)
    ]
    made = (*STAGING_COLUMNS, *(replace(f, name=STAGED_BEFORE + f.name) for f in columns), *columns)
    require_width(made, "the staging table", schema.table)
    return made


def staged_batches(
    changes: TableChanges, names: dict[str, str], stamp: BatchStamp, encoding: RowEncoding
) -> Iterator[pa.Table]:
    """The batch as it is staged: every change as it came, in order.

    Where updates lack columns, the net change per key instead, with the columns that it still lacks marked: a missing value
    comes from the row's history, which SQL cannot follow.
    """
    schema = changes.schema
    if schema.primary_key and any(batch.unchanged for batch in changes.batches()):
        yield from _net_batches(changes, names, stamp, encoding)
        return
    for batch in changes.batches():
        yield _table(stamp, batch.sequence_numbers, _codes(batch), None, _before(batch), _rows(batch), names, encoding)


def _codes(batch: ChangeBatch) -> npt.NDArray[np.int8]:
    codes: npt.NDArray[np.int8] = batch.op.to_numpy(zero_copy_only=False)
    return codes


def _rows(batch: ChangeBatch) -> dict[str, pa.Array]:
    """The rows after the changes; of a DELETE the key alone."""
    deletes = _codes(batch) == DMLOperation.DELETE
    columns = columns_of(batch.row)
    if not deletes.any():
        return columns
    before = columns_of(batch.before) if batch.before is not None else {}
    return {
        name: picked(deletes, before[name], c) if name in batch.schema.primary_key else with_nulls(c, ~deletes)
        for name, c in columns.items()
    }


def _before(batch: ChangeBatch) -> dict[str, pa.Array]:
    """The rows before the changes, as far as the source sends them; the key always, except before an INSERT."""
    size, op = len(batch), _codes(batch)
    inserts = op == DMLOperation.INSERT
    key = set(batch.schema.primary_key)
    if inserts.all() or batch.before is None:
        valid = given = np.zeros(size, np.bool_)
        before: dict[str, pa.Array] = {}
    else:
        valid = pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
        given = valid & ~inserts
        before = columns_of(batch.before)
    after = columns_of(batch.row)
    made: dict[str, pa.Array] = {}
    for column in batch.schema.columns:
        kind, name = column.type.arrow, column.name
        if inserts.all() or (name not in key and not (before and batch.before_is_full)):
            made[name] = pa.nulls(size, kind)
        elif name in key:
            made[name] = _key_before(before.get(name, after[name]), given, after[name], inserts)
        else:
            made[name] = before[name] if np.array_equal(valid, given) else with_nulls(before[name], given)
    return made


def _key_before(before: pa.Array, given: Bools, after: pa.Array, inserts: Bools) -> pa.Array:
    """The key before: as sent, else the row's own, and none before an INSERT."""
    key = before if given.all() else picked(given, before, after)
    return with_nulls(key, ~inserts) if inserts.any() else key


def _net_batches(
    changes: TableChanges, names: dict[str, str], stamp: BatchStamp, encoding: RowEncoding
) -> Iterator[pa.Table]:
    """The net change per key; `_before_…` of an update is the key of the row at the target."""
    schema = changes.schema
    plan = NetPlan(changes.batches, schema, overlap=changes.overlap)
    for part in plan.parts():
        codes = np.where(part.fresh, DMLOperation.INSERT, DMLOperation.UPDATE).astype(np.int8)
        rows = {name: combined(part.rows.column(name)) for name in schema.names}
        yield _table(stamp, part.sequence, codes, _flags(part, schema), _origins(part, schema), rows, names, encoding)
    if len(plan.deletes):
        size = len(plan.deletes)
        keys = {name: combined(plan.deletes.column(name)) for name in schema.primary_key}
        empty = {c.name: pa.nulls(size, c.type.arrow) for c in schema.columns}
        codes = np.full(size, DMLOperation.DELETE, np.int8)
        yield _table(
            stamp, plan.delete_sequence, codes, pa.repeat("", size), empty | keys, empty | keys, names, encoding
        )


def _flags(part: Upserts, schema: TableSchema) -> pa.Array:
    """For each row one digit a column, 1 where only the target has its value."""
    digits = np.full((len(part), len(schema.names)), ord("0"), np.uint8)
    for place, name in enumerate(schema.names):
        if name in part.unresolved:
            digits[part.unresolved[name], place] = ord("1")
    return matrix_rows(pa.string(), digits)


def _origins(part: Upserts, schema: TableSchema) -> dict[str, pa.Array]:
    size = len(part)
    made = {c.name: pa.nulls(size, c.type.arrow) for c in schema.columns}
    place = np.arange(size)
    place[part.origin_rows] = size + np.arange(len(part.origin_rows))
    for name in schema.primary_key:
        own, origin = combined(part.rows.column(name)), combined(part.origin.column(name))
        made[name] = pa.concat_arrays([own, origin]).take(pa.array(place)) if len(origin) else own
    return made


def _table(
    stamp: BatchStamp,
    sequence: Int64s | None,
    codes: npt.NDArray[np.int8],
    unchanged: pa.Array | None,
    before: dict[str, pa.Array],
    rows: dict[str, pa.Array],
    names: dict[str, str],
    encoding: RowEncoding,
) -> pa.Table:
    assert sequence is not None
    size = len(codes)
    columns = {
        BATCH_TIME: pa.repeat(pa.scalar(stamp.moment, pa.timestamp("us", "UTC")), size),
        BATCH_ID: pa.DictionaryArray.from_arrays(np.zeros(size, np.int8), pa.array([stamp.batch_id])),
        STAGED_SEQUENCE: pa.array(sequence, pa.int64()),
        OPERATION: pa.DictionaryArray.from_arrays(codes - 1, _OPERATIONS),
        UNCHANGED: pa.nulls(size, pa.string()) if unchanged is None else unchanged,
        LOG_PARTITION: pa.repeat(pa.scalar(stamp.partition, pa.int64()), size),
    }
    staged = {STAGED_BEFORE + names[source]: column for source, column in before.items()}
    staged |= {names[source]: column for source, column in rows.items()}
    return pa.table(columns | {name: encoding.column(name, column) for name, column in staged.items()})
