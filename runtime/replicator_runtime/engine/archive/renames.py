"""Renames of tables as the archive has them: from the first name to the last one, those that happened at once together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_sdk import DDLEvent, Position, TableId, TableSchema


@dataclass(frozen=True, slots=True)
class ArchivedRename:
    """One table that has another name.

    Attributes:
        former: Its name before.
        schema: Its schema under the name after.
        position: Where the table is then.
    """

    former: TableId
    schema: TableSchema
    position: Position


def renames_of(events: Sequence[DDLEvent], ends: Mapping[TableId, Position]) -> list[ArchivedRename]:
    """What these RENAME_TABLEs come to, without what the archive has already, and without names that tables have in between only.

    Args:
        events: In order.
        ends: Where the archive has each table.
    """
    first: dict[TableId, TableId] = {}
    last: dict[TableId, ArchivedRename] = {}
    for event in events:
        if event.prev_table is None or event.schema is None or event.position is None:
            continue
        former = first.pop(event.prev_table, event.prev_table)
        last.pop(event.prev_table, None)
        first[event.table] = former
        last[event.table] = ArchivedRename(former, event.schema, event.position)
    known = {table: ends.get(table) for table in last}
    return [rename for table, rename in last.items() if (end := known[table]) is None or end < rename.position]


def rename_entry(renames: Sequence[ArchivedRename]) -> dict[str, Any]:
    """What a manifest says of tables that were renamed at once."""
    return {
        "kind": "rename",
        "table": renames[0].schema.table.to_json(),
        "position": str(renames[-1].position),
        "renames": [{"former": one.former.to_json(), "schema": one.schema.to_json()} for one in renames],
    }
