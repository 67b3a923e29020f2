"""How many columns a table may have at BigQuery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_target_bigquery.schema.fields import Field

_MOST: Final = 10_000


def column_count(fields: Sequence[Field]) -> int:
    """The columns as BigQuery's limit counts them: fields inside records count, the records themselves do not."""
    return sum(column_count(field.fields) if field.fields else 1 for field in fields)


def require_width(fields: Sequence[Field], what: str, of: TableId) -> None:
    """Refuse a table with more columns than BigQuery's tables may have.

    Args:
        fields: The columns.
        what: Which table has them, to follow "at BigQuery".
        of: The source's table.

    Raises:
        NeedsUserError: RPL-6502, when there are too many.
    """
    if (count := column_count(fields)) > _MOST:
        raise NeedsUserError(
            f"at BigQuery {what} would have {count:,} columns, and {_MOST:,} is the most",
            code="RPL-6502",
            table=str(of),
            hint="leave columns out by `columns`; mode batch has each of the source's columns twice in its staging table, cdc once",
        )
