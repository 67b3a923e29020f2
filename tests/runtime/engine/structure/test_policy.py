"""Which changes of structure the target can go on without."""

from __future__ import annotations

import pytest

from replicator_runtime.config.model import DDLPoliciesConfig
from replicator_runtime.engine.structure.policy import change_of
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.tables.table_store import NO_ROWS, SnapshotRecord, TableRecord
from replicator_sdk import (
    Alter,
    AlterKind,
    Column,
    DDLEvent,
    DDLOperation,
    NumberOffset,
    Position,
    TableId,
    TableSchema,
)
from replicator_sdk.datatype import INT64

TABLE = TableId("shop", "orders")
SIZE = Column("size", INT64)
SCHEMA = TableSchema(TABLE, (Column("id", INT64, nullable=False), SIZE), ("id",))


def why_not_kept(where: str = "", scope: TableScope | None = None) -> str:
    snapshot = SnapshotRecord("copy", (), NumberOffset(1), NumberOffset(1), done=True, where=where)
    record = TableRecord(TABLE, [(None, SCHEMA)], snapshot=snapshot, scope=scope)
    at = NumberOffset(2)
    drop = (Alter(AlterKind.DROP_COLUMN, None, SIZE),)
    event = DDLEvent(at, DDLOperation.ALTER_TABLE, TABLE, SCHEMA, alters=drop, position=Position(at, 1))
    return change_of(event, record, DDLPoliciesConfig(drop_column="ask")).only_approved


def test_a_column_can_be_kept_in_a_table_with_all_rows() -> None:
    assert why_not_kept() == ""
    assert why_not_kept(scope=TableScope(None, left_out=frozenset({"DELETE"}))) == ""


@pytest.mark.parametrize("where", ["id < 10", NO_ROWS])
def test_no_column_is_kept_where_an_update_may_be_of_a_row_that_the_target_does_not_have(where: str) -> None:
    """Such an update is the whole row, but not what the kept column had: the target could not take it."""
    assert "does not have all rows" in why_not_kept(where)


def test_no_column_is_kept_where_inserts_are_left_out() -> None:
    assert "does not have all rows" in why_not_kept(scope=TableScope(None, left_out=frozenset({"INSERT"})))
