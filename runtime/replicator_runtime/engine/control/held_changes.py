"""Commands that decide on changes of structure which are held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.engine.control.table_commands import Work
from replicator_sdk import DDLOperation
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
    from replicator_runtime.engine.tables.pause import HeldChange
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_state import Request


def approve(lifecycle: TableLifecycle, request: Request) -> Work:
    """`ddl.approve`: the target gets changes of structure, and then what came after them.

    Raises:
        NeedsUserError: RPL-1225 without changes; RPL-1295 for one that does not wait; RPL-1296 for one that was rejected.
    """
    return _decide(lifecycle, request, approved=True)


def reject(lifecycle: TableLifecycle, request: Request) -> Work:
    """`ddl.reject`: the target goes on without changes of structure.

    Raises:
        NeedsUserError: RPL-1225 without changes; RPL-1295 for one that does not wait; RPL-1296 for one that was approved;
            RPL-1297 for one that the target cannot go on without.
    """
    return _decide(lifecycle, request, approved=False)


def _decide(lifecycle: TableLifecycle, request: Request, *, approved: bool) -> Work:
    ids = request.arguments.get("changes")
    if not isinstance(ids, list) or not ids:
        raise NeedsUserError("the request names no changes", code="RPL-1225", hint="give the command again")
    lines: list[str] = []
    new: list[tuple[TableRecord, HeldChange]] = []
    for change_id in dict.fromkeys(map(str, ids)):
        found = _waiting(lifecycle, change_id)
        if found is None:
            lines.append(_decided_before(lifecycle, change_id, approved=approved))
            continue
        record, change = found
        if not approved:
            _check_rejectable(record, change)
        new.append(found)
        what = _what_follows(record, change, approved=approved)
        lines.append(f"{record.table}: {change.text} ({change_id}) is {_word(approved)}: {what}")

    def carry_out() -> None:
        """Note it; the next attempt does it."""
        for record, change in new:
            if lifecycle.decide(record, change, approved=approved, request_id=request.request_id):
                lifecycle.resume(record, request.request_id)
            lifecycle.show_pause(record)
        if new:
            lifecycle.save()

    return Work(tuple(lines), carry_out)


def _waiting(lifecycle: TableLifecycle, change_id: str) -> tuple[TableRecord, HeldChange] | None:
    for record in lifecycle.records.values():
        for change in record.undecided:
            if change.change_id == change_id:
                return record, change
    return None


def _decided_before(lifecycle: TableLifecycle, change_id: str, *, approved: bool) -> str:
    """What to say of a change that does not wait; it was decided in this way by an earlier request, or by this one before a crash."""
    for record in lifecycle.records.values():
        decision = next((found for found in record.decisions if found.change_id == change_id), None)
        if decision is not None and decision.approved == approved:
            return f"{record.table}: {change_id} is {_word(approved)} already"
        if decision is not None:
            raise NeedsUserError(
                f"{change_id} is {_word(decision.approved)} already, and cannot be {_word(approved)} any more; nothing was changed",
                code="RPL-1296",
                hint="to have the table as the source has it: `replicator table resync NAME TABLE --in-place`",
                table=str(record.table),
            )
    raise NeedsUserError(
        f"no change {change_id} waits for a decision; nothing was changed",
        code="RPL-1295",
        hint="`replicator ddl list NAME` shows those that wait: a table that was dropped, renamed or copied meanwhile has others",
    )


def _check_rejectable(record: TableRecord, change: HeldChange) -> None:
    why = change.only_approved
    if not why and record.needs_snapshot and change.operation is not DDLOperation.DROP_TABLE:
        why = "the table has no lane any more, so it is copied again, as the source has it"
    if why:
        raise NeedsUserError(
            f"{record.table}: {change.text} cannot be rejected: {why}; nothing was changed",
            code="RPL-1297",
            hint=f"`replicator ddl approve NAME {change.change_id}`; until then the target's table stays as it is",
            table=str(record.table),
        )


def _what_follows(record: TableRecord, change: HeldChange, *, approved: bool) -> str:
    if change.operation is DDLOperation.DROP_TABLE:
        return (
            "the target drops the table"
            if approved
            else "the target keeps the table, which takes no more changes; `replicator table drop` does not know it, so delete it by hand when it is not needed"
        )
    if record.needs_snapshot:
        return "the table is copied again"
    assert record.pause is not None
    if record.pause.request:
        later = "when it is resumed"
    else:
        later = "once its other changes are decided" if len(record.undecided) > 1 else "now"
    if approved:
        return f"the target gets it and what came after it {later}"
    if change.operation is DDLOperation.TRUNCATE_TABLE:
        return f"the target keeps the rows, and gets what came after it {later}"
    kept = ", ".join(column.name for column in change.columns)
    return f"the target keeps {kept}, which is NULL in new rows, and gets what came after it {later}"


def _word(approved: bool) -> str:
    return "approved" if approved else "rejected"
