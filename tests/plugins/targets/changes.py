"""Short ways to write changes of the tests' tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.event import Alter, DDLEvent, DDLOperation, DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.in_memory.offset import MemoryOffset

TABLE = TableId("shop", "customers")
KEYED = TableSchema(TABLE, (Column("id", INT64), Column("name", STRING), Column("note", STRING)), ("id",))
KEYLESS = TableSchema(TableId("shop", "log"), (Column("name", STRING), Column("number", INT64)))


def insert(row: Mapping[str, Any], schema: TableSchema = KEYED) -> RowChange:
    """An INSERT."""
    return RowChange(schema, DMLOperation.INSERT, row)


def update(row: Mapping[str, Any], schema: TableSchema = KEYED, before: Mapping[str, Any] | None = None) -> RowChange:
    """An UPDATE; columns that `row` lacks were not sent."""
    unchanged = frozenset(schema.names) - row.keys()
    full = before is not None and before.keys() == set(schema.names)
    return RowChange(schema, DMLOperation.UPDATE, row, before, unchanged, full)


def delete(before: Mapping[str, Any], schema: TableSchema = KEYED) -> RowChange:
    """A DELETE."""
    return RowChange(schema, DMLOperation.DELETE, {}, before, before_is_full=before.keys() == set(schema.names))


def batch(
    position: int,
    changes: Sequence[RowChange],
    *,
    epoch: int = 1,
    overlap: bool = False,
    drops_lost_updates: bool | None = None,
) -> TableChanges:
    """Changes that bring their table to `position`; sequence numbers go on from 1000 times it."""
    numbered = to_batch(changes, range(len(changes)), position * 1000, 1_700_000_000_000_000)
    identity = BatchIdentity(1, epoch, position * 1000 + 1, position * 1000 + len(changes), at(position))
    return to_table_changes([numbered], identity, overlap=overlap, drops_lost_updates=drops_lost_updates)


def ddl(position: int, operation: DDLOperation, schema: TableSchema | None = KEYED, **facts: Any) -> DDLEvent:
    """A change of structure that brings its table to `position`."""
    table = facts.pop("table", schema.table if schema else TABLE)
    return DDLEvent(MemoryOffset(position), operation, table, schema, position=at(position), **facts)


def alter(position: int, schema: TableSchema, *steps: Alter, **facts: Any) -> DDLEvent:
    """An ALTER_TABLE."""
    return ddl(position, DDLOperation.ALTER_TABLE, schema, alters=steps, **facts)


def at(transaction: int) -> Position:
    """The position after so many transactions."""
    return Position(MemoryOffset(transaction))


def row(key: int, name: str | None = None, note: str | None = None) -> dict[str, Any]:
    """A row of the keyed table."""
    return {"id": key, "name": name, "note": note}
