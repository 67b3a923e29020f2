"""Leaves out the steps of a schema change that a table's copy already has.

A log that announces a change with the next row of its table (PostgreSQL's) positions it there. When the table was copied
between the change and that row, the target has it; when more was changed after the copy, the log announces both at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_sdk import AlterKind
from replicator_sdk.authoring.schema_diff import alter_steps

if TYPE_CHECKING:
    from replicator_sdk import Alter, Column, DDLEvent, TableSchema
    from replicator_sdk.datatype import DataType


def steps_after_copy(event: DDLEvent, copied: TableSchema) -> DDLEvent:
    """The event with steps that begin at the columns of the copy; the same event when they do already.

    Columns are compared by identity (`Column.source_id`), which all of them must have.

    Args:
        event: An ALTER_TABLE with a schema.
        copied: The table's columns as they were copied before the event, and as the target has them.
    """
    assert event.schema is not None
    if _begins_at(event.alters, copied, event.schema):
        return event
    former = {column.source_id: column.name for column in copied.columns}
    origins = {c.name: former[c.source_id] for c in event.schema.columns if c.source_id in former}
    defaults = {
        step.column.name: step.default for step in event.alters if step.kind is AlterKind.ADD_COLUMN and step.column
    }
    return replace(event, alters=alter_steps(copied, event.schema, origins, defaults=defaults))


def has_other_columns(copied: TableSchema, schema: TableSchema) -> bool:
    """Whether `schema` has other columns than the copy, or other names for them: values would go to the wrong column."""
    names = {column.source_id: column.name for column in copied.columns}
    return names != {column.source_id: column.name for column in schema.columns}


def _begins_at(steps: tuple[Alter, ...], copied: TableSchema, last: TableSchema) -> bool:
    """Whether the steps lead from `copied` to `last`."""
    present = {column.source_id: column for column in copied.columns}
    for step in steps:
        before, after = step.previous, step.column
        if before is not None and _kind(present.pop(before.source_id, None)) != _kind(before):
            return False
        if after is not None and present.setdefault(after.source_id, after) is not after:
            return False
    changes_key = any(step.kind is AlterKind.CHANGE_KEY for step in steps)
    return {i: _kind(column) for i, column in present.items()} == {
        c.source_id: _kind(c) for c in last.columns
    } and changes_key == (_key(copied) != _key(last))


def _kind(column: Column | None) -> tuple[str, DataType] | None:
    return None if column is None else (column.name, column.type)


def _key(schema: TableSchema) -> list[str]:
    return [schema[name].source_id for name in schema.primary_key]
