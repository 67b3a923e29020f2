"""Whether a table that is there can take the rows of a schema; somebody may have altered it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.warehouse import Found


def misfit(wanted: Sequence[Field], found: Found) -> str:
    """What stands in the way, to follow "the target's table"; empty when nothing does.

    Columns beyond those of the schema are no misfit unless they insist on values.
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
    extra = [f.name for f in found.fields if f.mode == "REQUIRED" and f.name.lower() not in names]
    return f"insists on values for {', '.join(extra)}, which the source does not have" if extra else ""
