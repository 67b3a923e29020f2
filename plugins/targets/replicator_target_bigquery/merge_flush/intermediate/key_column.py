"""The key of a row as one STRUCT column, as the tables of mode `merge-flush` have it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.schema.encoding import loadable
from replicator_target_bigquery.schema.fields import Field, field_of
from replicator_target_bigquery.schema.names import column_name


def key_field(schema: TableSchema, name: str) -> Field:
    """The key column `name` of a table that has a key."""
    inside = (
        field_of(column_name(c.name), c.type, mode="NULLABLE" if c.nullable else "REQUIRED")
        for c in schema.key_columns()
    )
    return Field(name, "STRUCT", fields=tuple(inside))


def key_array(schema: TableSchema, columns: Mapping[str, pa.Array]) -> pa.StructArray:
    """The keys of rows given by the source's columns."""
    parts = [loadable(columns[c.name]) for c in schema.key_columns()]
    fields = [
        pa.field(column_name(c.name), part.type, nullable=c.nullable)
        for c, part in zip(schema.key_columns(), parts, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=fields)
