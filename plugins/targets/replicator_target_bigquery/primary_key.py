"""The key as BigQuery is told of it: mode `cdc` applies changes by it."""

from __future__ import annotations

from typing import Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.fields import field_of
from replicator_target_bigquery.names import column_name

_MOST: Final = 16


def primary_key(schema: TableSchema) -> tuple[str, ...]:
    """The key's columns by their names at the target, in order.

    Raises:
        NeedsUserError: When BigQuery's change ingestion cannot go by the table's key.
    """
    if not schema.primary_key:
        raise _unsuitable(schema, "the table has no primary key, and BigQuery's change ingestion goes by one")
    if len(schema.primary_key) > _MOST:
        raise _unsuitable(schema, f"the key has more than {_MOST} columns")
    wrong = [c.name for c in schema.key_columns() if not field_of("k", c.type).clusters]
    if wrong:
        raise _unsuitable(schema, f"BigQuery takes no key of the types of {', '.join(wrong)}")
    return tuple(column_name(c.name) for c in schema.key_columns())


def _unsuitable(schema: TableSchema, what: str) -> NeedsUserError:
    return NeedsUserError(
        what,
        code="RPL-6701",
        table=str(schema.table),
        hint="replicate this table by a pipeline of its own with mode batch, or give it another key at the source",
    )
