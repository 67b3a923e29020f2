"""The error for a table that is not as the settings and the source have it now."""

from __future__ import annotations

from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId


def of_another_form(table: TableId, position: Position, *, loses_history: bool) -> SchemaDriftError:
    """What to say of changes that the table cannot take as it is.

    Args:
        table: The table.
        position: That of the changes.
        loses_history: Whether a new copy takes versions of rows away that nothing else has.
    """
    if loses_history:
        return SchemaDriftError(
            "the table has every version of a row, and the target's `mode` is another one now",
            code="RPL-6425",
            table=str(table),
            position=str(position),
            hint="set `mode` to scd2 again, and the table goes on; or copy the table again, which takes its history away:"
            " `replicator table resync NAME TABLE`",
        )
    return SchemaDriftError(
        "the changes have other columns than the target's table, or its readers other keys",
        code="RPL-6425",
        table=str(table),
        position=str(position),
        hint="copy the table again: `replicator table resync NAME TABLE`",
    )
