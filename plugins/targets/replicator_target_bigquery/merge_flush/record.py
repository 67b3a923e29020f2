"""The key of a row as one STRUCT column, as the tables of mode `merge-flush` have it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.encoding import loadable
from replicator_target_bigquery.fields import Field, field_of
from replicator_target_bigquery.names import column_name


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


def must_have_key(schema: TableSchema) -> None:
    """Refuse a table whose rows cannot be told apart.

    Raises:
        NeedsUserError: When it has no primary key.
    """
    if not schema.primary_key:
        raise NeedsUserError(
            "the table has no primary key, by which rows could be upserted or deleted",
            code="RPL-6601",
            table=str(schema.table),
            hint="give it a primary key, use mode batch, or append only: without upsertEnabled and deleteEnabled",
        )


def lacks_columns(changes: TableChanges) -> DataError:
    """Updates lack values that cannot be found."""
    return DataError(
        "updates do not carry all columns, and only upsert and delete together can find the values they lack",
        code="RPL-6610",
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="let the source send whole rows (REPLICA IDENTITY FULL, full row images), or set upsertEnabled and deleteEnabled",
    )
