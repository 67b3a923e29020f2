"""`dead-letters.replay`: has the rows that were put aside read again from the source, by a new copy of their tables.

Only the source knows what such a row is now: what was put aside lacks the refused value, and later changes may have been put
aside with it. A copy at one position cannot overwrite newer changes (`docs/decisions/0039-rows-put-aside.md`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_runtime.engine.control.table_commands import refuse_held, resync
from replicator_runtime.engine.control.table_names import find_table, quoted_name
from replicator_sdk.errors import NeedsUserError, SnapshotNeededError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.engine.control.table_commands import Work
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId
    from replicator_state import Request


def replay(lifecycle: TableLifecycle, request: Request) -> Work:
    """Copy tables again that have rows put aside: those named, or all of them but those that wait for an operator.

    Raises:
        NeedsUserError: RPL-1280 when no row is put aside; RPL-1220 for an unknown table; as `table_commands.resync`.
    """
    named = request.arguments.get("tables") or ()
    records = lifecycle.records
    tables = list(dict.fromkeys(find_table(str(name), records) for name in named)) if named else sorted(records)
    rows = {table: _open_rows(lifecycle, records[table].copy_id) for table in tables}
    # One that this very request has marked before a crash has its letters no more once it is copied.
    chosen = [t for t in tables if rows[t] != 0 or records[t].resync == request.request_id]
    lacking = [table for table in tables if table not in chosen]
    if not chosen or (named and lacking):
        raise NeedsUserError(
            f"no row of {', '.join(map(str, lacking)) or 'any table'} is put aside",
            code="RPL-1280",
            hint="`replicator dead-letters list NAME` lists those that are; nothing was changed",
        )
    held = {} if named else _held(chosen, records)
    if len(held) < len(chosen):
        chosen = [table for table in chosen if table not in held]
    arguments = {"tables": [quoted_name(table) for table in chosen], "inPlace": True}
    work = resync(lifecycle, replace(request, arguments=arguments))
    lines = tuple(f"{line}, with {_said(rows[table])}" for table, line in zip(chosen, work.lines, strict=True))
    left = (f"{table} is left out, with {_said(rows[table])}: {why}" for table, why in held.items())
    return replace(work, lines=(*lines, *left))


def _held(tables: list[TableId], records: Mapping[TableId, TableRecord]) -> dict[TableId, NeedsUserError]:
    """Why tables cannot be copied again before an operator does something."""
    found = {}
    for table in tables:
        try:
            refuse_held(records[table])
        except NeedsUserError as error:
            found[table] = error
    return found


def _open_rows(lifecycle: TableLifecycle, copy_id: str) -> int | None:
    """How many rows are put aside; None where the file that says so is damaged."""
    try:
        return lifecycle.run.letters.open_rows(copy_id)
    except SnapshotNeededError:
        return None


def _said(rows: int | None) -> str:
    return "a damaged file of rows put aside" if rows is None else f"{rows} rows put aside"
