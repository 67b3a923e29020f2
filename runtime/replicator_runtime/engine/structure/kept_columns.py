"""Gives the target changes as its table is, where that has kept columns or rows that the source has not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from replicator_sdk import AlterKind, DDLOperation, DMLOperation, TableChanges
from replicator_sdk.event import Alter
from replicator_sdk.schema import replace_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import ChangeBatch, Column, DDLEvent, DeltaTarget, TableSchema


def prevents_copy_beside(record: TableRecord, target: DeltaTarget) -> bool:
    """Whether the target cannot make a new copy of the table beside it, since the table has kept columns that the copy has not."""
    return bool(record.kept_columns) and not target.copies_other_columns_beside


def changes_for_target(changes: TableChanges, record: TableRecord | None) -> TableChanges:
    """The changes with the columns that the target has kept: NULL in new rows, as they are in others.

    Where it has kept rows, an insert may find its row there.
    """
    if record is None or not (record.kept_columns or record.keeps_rows):
        return changes
    schema = _with_kept(changes.schema, record.kept_at(changes.identity.position))
    return TableChanges(
        schema,
        changes.identity,
        lambda: (_widened(batch, schema) for batch in changes.batches()),
        rows=changes.rows,
        nbytes=changes.nbytes,
        overlap=changes.overlap or record.keeps_rows,
        drops_lost_updates=changes.drops_lost_updates or record.keeps_rows,
        inserts_only=changes.inserts_only,
        source_timestamp=changes.source_timestamp,
        unordered=changes.unordered,
        follows=changes.follows,
        valid_through=changes.valid_through,
    )


def event_for_target(event: DDLEvent, record: TableRecord | None) -> DDLEvent:
    """The event with the columns that the target has kept in its schema."""
    if record is None or not record.kept_columns or event.schema is None:
        return event
    if event.operation is DDLOperation.CREATE_TABLE:
        return event
    return replace(event, schema=_with_kept(event.schema, record.kept_at(event.position)))


def without_drops(event: DDLEvent) -> DDLEvent | None:
    """What the target gets of an event that is ignored; None for nothing. Its dropped columns stay, and may be NULL from now on."""
    if event.operation is not DDLOperation.ALTER_TABLE:
        return None
    steps: list[Alter] = []
    for step in event.alters:
        if step.kind is not AlterKind.DROP_COLUMN:
            steps.append(step)
        elif step.previous is not None and not step.previous.nullable:
            steps.append(Alter(AlterKind.RELAX_COLUMN, replace(step.previous, nullable=True), step.previous))
    return replace(event, alters=tuple(steps)) if steps else None


def _with_kept(schema: TableSchema, kept: Sequence[Column]) -> TableSchema:
    missing = [replace(column, nullable=True) for column in kept if column.name not in schema]
    return replace_columns(schema, [*schema.columns, *missing]) if missing else schema


def _widened(batch: ChangeBatch, schema: TableSchema) -> ChangeBatch:
    """The batch with all columns of `schema`; updates leave those alone that it does not have."""
    added = [name for name in schema.names if name not in batch.schema]
    if not added:
        return batch
    updates = batch.op.to_numpy(zero_copy_only=False) == int(DMLOperation.UPDATE)
    mask = {name: pa.array(updates) for name in added} if bool(np.any(updates)) else {}
    return replace(
        batch,
        schema=schema,
        row=_struct(batch.row, schema),
        before=None if batch.before is None else _struct(batch.before, schema),
        before_is_full=False,
        unchanged={**batch.unchanged, **mask},
    )


def _struct(rows: pa.StructArray, schema: TableSchema) -> pa.StructArray:
    there = {field.name: place for place, field in enumerate(rows.type)}
    columns = [
        rows.field(there[field.name]) if field.name in there else pa.nulls(len(rows), field.type)
        for field in schema.struct
    ]
    return pa.StructArray.from_arrays(columns, fields=list(schema.struct), mask=rows.is_null())
