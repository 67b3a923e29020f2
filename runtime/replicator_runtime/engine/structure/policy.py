"""Decides what follows from a change of structure: by what was decided of it before, else by `ddlPolicies`."""

from __future__ import annotations

import enum
import time
from typing import TYPE_CHECKING

from replicator_runtime.engine.structure.kinds import in_words, kinds_of
from replicator_runtime.engine.tables.pause import HeldChange, change_id_of
from replicator_sdk import AlterKind, DDLOperation
from replicator_sdk.errors import NeedsUserError, SchemaDriftError

if TYPE_CHECKING:
    from replicator_runtime.config.model import DDLPoliciesConfig
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import DDLEvent, Position, TableId

_IGNORABLE = frozenset({"dropColumn", "truncate", "dropTable"})
_PARTIAL = (
    'the target does not have all rows (`where`, `snapshot.mode` "never" or `dmlBlacklist`), and an update of another row does not'
    " say what a kept column has"
)


class Ruling(enum.Enum):
    """What follows from a change."""

    APPLY = enum.auto()
    IGNORE = enum.auto()
    ASK = enum.auto()
    FAIL = enum.auto()


def rule(event: DDLEvent, record: TableRecord, policies: DDLPoliciesConfig) -> Ruling:
    """What follows from `event`. Of several kinds in one event the strictest decides: `fail`, then `ask`, then `ignore`.

    Args:
        event: The change, with its position.
        record: Its table.
        policies: The pipeline's.
    """
    decided = record.decision_at(event.position)
    if decided is not None:
        return Ruling.APPLY if decided.approved else Ruling.IGNORE
    edited = policies.edited
    wanted = {edited[kind] for kind in kinds_of(event) & edited.keys()}
    for ruling in (Ruling.FAIL, Ruling.ASK, Ruling.IGNORE):
        if ruling.name.lower() in wanted:
            return ruling
    return Ruling.APPLY


def change_of(event: DDLEvent, record: TableRecord, policies: DDLPoliciesConfig) -> HeldChange:
    """The change as an operator is asked about it.

    Args:
        event: The change, with its position.
        record: Its table.
        policies: The pipeline's.
    """
    assert event.position is not None
    dropped = (step.previous for step in event.alters if step.kind is AlterKind.DROP_COLUMN)
    return HeldChange(
        change_id_of(event.table, event.position),
        event.position,
        event.operation,
        in_words(event),
        time.time(),
        tuple(column for column in dropped if column is not None),
        _why_only_approved(event, record, policies),
    )


def _why_only_approved(event: DDLEvent, record: TableRecord, policies: DDLPoliciesConfig) -> str:
    """Why the target cannot go on without the change; empty when it can."""
    others = sorted((kinds_of(event) & policies.edited.keys()) - _IGNORABLE)
    if others:
        return f"later rows do not fit a table without it ({', '.join(others)})"
    if event.operation is DDLOperation.DROP_TABLE:
        return ""
    if event.needs_snapshot:
        return "it changed rows in a way that the log does not have: the table is copied again, as the source has it"
    return _why_not_kept(event, record) if event.operation is DDLOperation.ALTER_TABLE else ""


def _why_not_kept(event: DDLEvent, record: TableRecord) -> str:
    """The same of a change that drops columns."""
    assert event.position is not None
    schema = record.schema_at(event.position.offset)
    if not schema.primary_key:
        return "the table has no key: its rows are found by all their columns"
    dropped = {step.previous.name for step in event.alters if step.kind is AlterKind.DROP_COLUMN and step.previous}
    if dropped & set(schema.primary_key):
        return "it drops a column of the key"
    return _PARTIAL if dropped and _lacks_rows(record) else ""


def _lacks_rows(record: TableRecord) -> bool:
    """Whether the target may get an update of a row that it does not have."""
    is_part = record.snapshot is not None and bool(record.snapshot.where)
    return is_part or (record.scope is not None and record.scope.lacks_written_rows)


def rule_of_rewriting(policies: DDLPoliciesConfig) -> Ruling:
    """What follows where rows were rewritten by a change that is not in the log; which kind it was is not known then."""
    wanted = {policies.edited.get(kind) for kind in ("addColumn", "widenType", "changeType")}
    return next((ruling for ruling in (Ruling.FAIL, Ruling.ASK) if ruling.name.lower() in wanted), Ruling.APPLY)


def rewriting_of(table: TableId, position: Position) -> HeldChange:
    """The same as an operator is asked about it; the table is copied again when it is approved.

    Args:
        table: The table.
        position: Of its last commit that was read; no change of structure has that position.
    """
    return HeldChange(
        change_id_of(table, position),
        position,
        DDLOperation.ALTER_TABLE,
        "ALTER TABLE that rewrote its rows",
        time.time(),
        only_approved="the log does not have the rewritten rows: the table is copied again, as the source has it",
    )


def cannot_ignore(event: DDLEvent, change: HeldChange) -> SchemaDriftError:
    """The error for a change that `ignore` does not fit."""
    return SchemaDriftError(
        f"{change.text}: it cannot be ignored: {change.only_approved}",
        code="RPL-6002",
        hint='set the kind in `ddlPolicies` to "apply" or "ask" in the pipeline, then start again',
        table=str(event.table),
        position=str(event.position),
    )


def failing(table: TableId, change: str, position: Position | None) -> SchemaDriftError:
    """The error for a change that the pipeline lets fail; `change` is in words."""
    return SchemaDriftError(
        f'the table was altered at the source, and `ddlPolicies` says "fail": {change}',
        code="RPL-6003",
        hint='set the kind in `ddlPolicies` to "apply" or "ask" in the pipeline, then start again',
        table=str(table),
        position=str(position),
    )


def check_names(event: DDLEvent, record: TableRecord) -> None:
    """Refuse a change that gives a column the name of one that the target has kept.

    Raises:
        SchemaDriftError: RPL-6004.
    """
    kept = {column.name for column in record.kept_at(event.position)}
    for step in event.alters:
        named = step.kind in {AlterKind.ADD_COLUMN, AlterKind.RENAME_COLUMN} and step.column is not None
        if named and step.column is not None and step.column.name in kept:
            raise SchemaDriftError(
                f"the source has another column {step.column.name} now, and the target has kept the former one",
                code="RPL-6004",
                hint="copy the table again, without the former column: `replicator table resync NAME TABLE --in-place`",
                table=str(event.table),
                position=str(event.position),
            )


def check_source(policies: DDLPoliciesConfig, *, takes_snapshots: bool) -> None:
    """Refuse policies for a source without snapshots: without a lane or a copy a table cannot wait, nor be made whole later.

    Raises:
        NeedsUserError: RPL-1299.
    """
    if policies.edited and not takes_snapshots:
        raise NeedsUserError(
            f"the source takes no snapshots: `ddlPolicies` can only be `apply`, and is something else for {', '.join(policies.edited)}",
            code="RPL-1299",
            hint="take these kinds out of `ddlPolicies`; `ddlBlacklist` can leave changes of structure out",
        )
