"""Finds the values of a batch that Arrow does not cast to what a table's files hold."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from replicator_sdk.authoring.refused_values import convert_marked
from replicator_sdk.batch import ChangeBatch, Refusal
from replicator_sdk.errors import DataError
from replicator_sdk.schema import Column
from replicator_target_delta.schema.encoding import conform
from replicator_target_delta.schema.types import logical_arrow_type, spark_type


def find_unfitting(batch: ChangeBatch) -> Mapping[str, Refusal]:
    """The values by column; each column is cast at once, and in halves only where that fails."""
    found = {}
    for column in batch.schema.columns:
        kind = logical_arrow_type(spark_type(column.type))
        _, refusal = convert_marked(_Cast(column, kind), batch.row.field(column.name), kind)
        if refusal is not None and column.name not in batch.schema.primary_key:
            found[column.name] = refusal
    return found


class _Cast:
    """Casts a column; without Arrow's message, which may hold the value."""

    def __init__(self, column: Column, kind: pa.DataType) -> None:
        self._column = column
        self._kind = kind

    def __call__(self, values: pa.Array) -> pa.Array:
        try:
            return conform(values, self._kind)
        except pa.ArrowInvalid:
            raise DataError(
                f"column {self._column.name!r} holds a value that does not fit its column at the target",
                code="RPL-5402",
            ) from None
