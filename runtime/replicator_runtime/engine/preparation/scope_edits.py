"""Decides what follows an edit of a table's `columns` or blacklists: nothing, a new copy, or a refusal.

Runs act on it, and an assessment reports it before they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.tables.table_scope import DELETING, TableScope
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.config import SelectedTable
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import TableId, TableSchema, TableSnapshot


def why_copied_again(
    record: TableRecord, selected: SelectedTable, described: Callable[[], TableSchema], *, copies: bool
) -> str:
    """Why a known table is copied again with this selection; empty when its copy at the target fits. Changes nothing.

    Args:
        record: The table; its schemas are known.
        selected: The selection of this run.
        described: Describes the table as it is selected now; called only where the decision needs it.
        copies: Whether the engine copies the source's tables.

    Raises:
        NeedsUserError: RPL-2006 or RPL-2007 when the target cannot follow.
    """
    now, before = TableScope.of(selected), record.scope
    if now == before:
        return ""
    let_in = before.left_out - now.left_out if before is not None else frozenset[str]()
    if before is not None and let_in and before.keeps_deleted_rows and copies:
        raise _keeps_deleted_rows(record, before.left_out)
    if not let_in and _same_columns(record, now, described):
        return ""
    if not copies:
        raise _cannot_follow(record, let_in)
    return f"{', '.join(sorted(let_in))} are let in again" if let_in else "other columns are selected"


def needs_rows(table: TableId) -> NeedsUserError:
    """The error of a table that only a new copy could make whole, in a pipeline that makes none unasked."""
    return NeedsUserError(
        'only a new copy of the table could go on, and `snapshot.mode` is "never"',
        code="RPL-2063",
        hint="`replicator table resync NAME TABLE --in-place` copies it with its rows; after an edit of `tables`, undoing it helps as well",
        table=str(table),
    )


def check_whole_updates(table: TableId, snapshot: TableSnapshot, *, leaves_out: bool) -> None:
    """Check that an update of a row can be applied where the table's copy leaves rows out.

    Raises:
        NeedsUserError: RPL-2062 when the log may show one without some of its values.
    """
    if leaves_out and snapshot.partial_updates:
        raise NeedsUserError(
            "its copy leaves rows out, and an update of such a row could not be applied: the log may lack values that it left"
            " as they were",
            code="RPL-2062",
            hint=f"{snapshot.partial_updates}; or remove what leaves them out: `where` of the table in `tables`, `snapshot.mode`, or `onDataError`",
            table=str(table),
        )


def _same_columns(record: TableRecord, now: TableScope, described: Callable[[], TableSchema]) -> bool:
    """Whether the target's table has the columns that are selected now."""
    before, have, key = record.scope, set(record.schema.names), set(record.schema.primary_key)
    if before is None:  # kept by a version that did not record it
        return now.columns is None or now.columns | key == have or set(described().names) == have
    if before.columns == now.columns:
        return True
    if before.columns is not None and now.columns is not None and before.columns | key == now.columns | key:
        return True
    return set(described().names) == have


def _keeps_deleted_rows(record: TableRecord, left_out: frozenset[str]) -> NeedsUserError:
    deleting, names = ", ".join(sorted(left_out & DELETING)), ", ".join(sorted(left_out))
    return NeedsUserError(
        f"{deleting} was left out, and the blacklist is shorter now: the target has rows that the source deleted meanwhile",
        code="RPL-2006",
        table=str(record.table),
        hint=f"to keep those rows, put the blacklist back with {names}; to drop them, copy the table again: `replicator table resync"
        " NAME TABLE --in-place`",
    )


def _cannot_follow(record: TableRecord, let_in: frozenset[str]) -> NeedsUserError:
    """What to say of an edit that only a new copy could follow, of a source that makes none."""
    if let_in:
        names = ", ".join(sorted(let_in))
        what, back = f"{names} was left out and is let in again", f"put {names} back on the blacklist"
    else:
        before = record.scope.columns if record.scope is not None else None
        listed = "no `columns`" if before is None else "`columns` " + ", ".join(sorted(before))
        what, back = "other columns are selected than were", f"give the table {listed}, as before"
    return NeedsUserError(
        f"{what}: only a new copy of the table could follow, and this source takes no snapshots",
        code="RPL-2007",
        table=str(record.table),
        hint=f"{back}; or replicate the table by a pipeline of its own, with another `name` and target folder, which reads"
        " the log from its start",
    )
