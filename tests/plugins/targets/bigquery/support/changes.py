"""Changes of the tests' tables as `tests.plugins.targets.changes` writes them; here the key allows no NULL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.schema import TableSchema, replace_columns
from replicator_sdk.testing.histories.reference import RowChange
from replicator_target_bigquery.schema.encoding import RowEncoding
from tests.plugins.targets import changes
from tests.plugins.targets.changes import KEYLESS, alter, at, batch, row

__all__ = ["EXACT", "KEYED", "KEYLESS", "alter", "at", "batch", "ddl", "delete", "insert", "row", "update"]

_ID, *_REST = changes.KEYED.columns
KEYED = replace_columns(changes.KEYED, (replace(_ID, nullable=False), *_REST))
EXACT = RowEncoding("shop.customers", {})


def insert(row: Mapping[str, Any], schema: TableSchema = KEYED) -> RowChange:
    """An INSERT."""
    return changes.insert(row, schema)


def update(row: Mapping[str, Any], schema: TableSchema = KEYED, before: Mapping[str, Any] | None = None) -> RowChange:
    """An UPDATE; columns that `row` lacks were not sent."""
    return changes.update(row, schema, before)


def delete(before: Mapping[str, Any], schema: TableSchema = KEYED) -> RowChange:
    """A DELETE."""
    return changes.delete(before, schema)


def ddl(position: int, operation: DDLOperation, schema: TableSchema | None = KEYED, **facts: Any) -> DDLEvent:
    """A change of structure that brings its table to `position`."""
    return changes.ddl(position, operation, schema, **facts)
