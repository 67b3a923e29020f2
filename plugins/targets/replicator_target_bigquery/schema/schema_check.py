"""Checks whether an existing table can take the rows of a schema; its columns may have been altered outside the replicator."""

from __future__ import annotations

from collections.abc import Sequence

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import SchemaDriftError
from replicator_target_bigquery.config import IS_DELETED
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.table_info import TableInfo


def schema_mismatch(wanted: Sequence[Field], found: TableInfo) -> str:
    """Why the table cannot take them, to follow "the target's table"; empty when it can.

    Columns beyond those of the schema are allowed unless they are NOT NULL, or mark deleted rows that were kept: a run without
    `softDeletes` would neither remove such rows nor take the mark off a row that comes again.
    """
    for column in wanted:
        there = found.column(column.name)
        if there is None:
            return f"has no column {column.name}"
        if not there.holds(column):
            return f"has column {column.name} as {there.sql}, not {column.sql}"
        if there.mode == "REQUIRED" and column.mode != "REQUIRED":
            return f"refuses NULL in column {column.name}"
    names = {column.name.lower() for column in wanted}
    mark = found.column(IS_DELETED)
    if mark is not None and mark.sql == "BOOL" and IS_DELETED not in names:
        return f"marks deleted rows in column {IS_DELETED}, and `softDeletes` is off now"
    extra = [f.name for f in found.fields if f.mode == "REQUIRED" and f.name.lower() not in names]
    return f"requires values for {', '.join(extra)}, which the source does not have" if extra else ""


def require_match(changes: TableChanges, wanted: tuple[Field, ...], found: TableInfo) -> None:
    """Refuse a table whose columns are not those of the changes.

    Raises:
        SchemaDriftError: When a column is missing, of another type, or too strict.
    """
    if problem := schema_mismatch(wanted, found):
        raise SchemaDriftError(
            f"the target's table {problem}",
            code="RPL-6531",
            table=str(changes.table),
            position=str(changes.identity.position),
            hint="undo the manual change of that table, or the edit of `softDeletes`; or copy the table again: `replicator table resync NAME TABLE --in-place`",
        )
