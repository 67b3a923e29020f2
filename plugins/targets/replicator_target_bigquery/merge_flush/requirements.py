"""What mode `merge-flush` requires of tables and changes."""

from __future__ import annotations

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_sdk.schema import TableSchema


def require_key(schema: TableSchema) -> None:
    """Refuse a table whose rows cannot be identified.

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


def missing_columns(changes: TableChanges) -> DataError:
    """The error for updates that lack values which no other row has."""
    return DataError(
        "updates do not carry all columns, and only upsert and delete together can find the values they lack",
        code="RPL-6610",
        table=str(changes.table),
        position=str(changes.identity.position),
        hint="let the source send whole rows (REPLICA IDENTITY FULL, full row images), or set upsertEnabled and deleteEnabled",
    )
