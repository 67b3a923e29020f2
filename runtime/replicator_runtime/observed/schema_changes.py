"""Changes of structure at the source that wait for an operator's decision."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.control.table_names import find_table, named_tables
from replicator_runtime.engine.tables.table_file import TableFile
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_state import ReplicatorDirectory


def waiting_changes(directory: ReplicatorDirectory) -> list[dict[str, Any]]:
    """The changes that wait, in the order of their tables."""
    tables, _ = TableFile(directory.states().scoped("runtime")).load()
    found = [_shown(table, change) for table in tables for change in _undecided(table)]
    return sorted(found, key=lambda change: (change["name"], change["since"]))


def _undecided(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    decided = {decision["id"] for decision in table.get("decisions", ())}
    return [change for change in (table.get("pause") or {}).get("changes", ()) if change["id"] not in decided]


def _shown(table: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    since = datetime.fromtimestamp(change["since"], UTC).isoformat(timespec="seconds")
    return {
        "id": change["id"],
        **table["table"],
        "name": str(TableId.from_json(table["table"])),
        "operation": change["operation"],
        "text": change["text"],
        "position": change["at"],
        "since": since,
        "onlyApproved": change["onlyApproved"] or _why_copied(table, change),
    }


def _why_copied(table: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    """Why it cannot be rejected where the table has no lane any more."""
    has_lane = (table.get("snapshot") or {}).get("done", False)
    return "" if has_lane or change["operation"] == "DROP_TABLE" else "the table has no lane, and is copied again"


def named_changes(names: Sequence[str], waiting: list[dict[str, Any]]) -> list[str]:
    """The ids that are meant: a table means those that wait now, and none that come later.

    Raises:
        NeedsUserError: RPL-1220 for a name that means several tables; RPL-1298 for a table of which nothing waits.
    """
    tables = {TableId.from_json(change): change["name"] for change in waiting}
    ids: list[str] = []
    for name in names:
        meant = named_tables(name, tables)
        # An id that does not wait is of a change that was decided, or is out of date: who carries it out says which.
        if name in {change["id"] for change in waiting} or (len(meant) != 1 and _is_id(name)):
            ids.append(name)
            continue
        if not meant:
            raise NeedsUserError(
                f"no change of {name} waits for a decision; nothing was changed",
                code="RPL-1298",
                hint="`replicator ddl list NAME` shows those that wait",
                table=name,
            )
        table = tables[find_table(name, meant)]
        ids += [change["id"] for change in waiting if change["name"] == table]
    return ids


def _is_id(name: str) -> bool:
    return len(name) == 10 and not set(name) - set("0123456789abcdef")
