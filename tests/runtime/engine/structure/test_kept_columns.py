"""A kept column is the target's from the change on that dropped it; a lane and a rewind have changes of before."""

from __future__ import annotations

import pytest

from replicator_runtime.engine.structure.kept_columns import changes_for_target, event_for_target
from replicator_runtime.engine.structure.policy import check_names
from replicator_runtime.engine.tables.pause import Decision
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_sdk import (
    Alter,
    AlterKind,
    BatchIdentity,
    Column,
    DDLEvent,
    DDLOperation,
    NumberOffset,
    Position,
    TableChanges,
    TableId,
    TableSchema,
)
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import SchemaDriftError

TABLE = TableId("shop", "orders")
SIZE = Column("size", INT64)
BARE = TableSchema(TABLE, (Column("id", INT64, nullable=False),), ("id",))
DROPPED = Position(NumberOffset(5), 1)


def record() -> TableRecord:
    """`size` was added at 2, dropped at 5, and kept; the decision went through its stored form."""
    stored = Decision("0123456789", DROPPED, approved=False, request="r", kept=("size",)).to_json()
    decision = Decision.from_json(stored, NumberOffset.from_fields)
    return TableRecord(TABLE, [(None, BARE)], decisions=[decision], kept_columns=(SIZE,))


def columns_at(number: int) -> tuple[str, ...]:
    identity = BatchIdentity(1, 1, number, number, Position(NumberOffset(number)))
    return tuple(changes_for_target(TableChanges(BARE, identity, [], rows=0, nbytes=0), record()).schema.names)


def addition(number: int) -> DDLEvent:
    added, at = (Alter(AlterKind.ADD_COLUMN, SIZE),), NumberOffset(number)
    return DDLEvent(at, DDLOperation.ALTER_TABLE, TABLE, BARE, alters=added, position=Position(at, 1))


def test_changes_of_before_do_not_get_the_column_and_later_ones_do() -> None:
    assert [columns_at(number) for number in (1, 6)] == [("id",), ("id", "size")]


def test_the_change_that_added_the_column_before_is_no_other_column() -> None:
    check_names(addition(2), record())
    with pytest.raises(SchemaDriftError, match="RPL-6004"):
        check_names(addition(7), record())


def test_the_dropping_change_itself_has_the_column() -> None:
    event = DDLEvent(DROPPED.offset, DDLOperation.ALTER_TABLE, TABLE, BARE, position=DROPPED)
    found = event_for_target(event, record()).schema
    assert found is not None
    assert tuple(found.names) == ("id", "size")
