"""Which kinds of change a change of structure holds, as `ddlPolicies` names them, and how people call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from replicator_sdk import AlterKind, DDLOperation

if TYPE_CHECKING:
    from replicator_sdk import Alter, DDLEvent
    from replicator_sdk.datatype import DataType

_ALTERS: Final = {
    AlterKind.ADD_COLUMN: "addColumn",
    AlterKind.DROP_COLUMN: "dropColumn",
    AlterKind.RENAME_COLUMN: "renameColumn",
}
_OPERATIONS: Final = {DDLOperation.TRUNCATE_TABLE: "truncate", DDLOperation.DROP_TABLE: "dropTable"}
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}


def kinds_of(event: DDLEvent) -> frozenset[str]:
    """The kinds of an event; none for what has no policy, as a column that may be NULL from now on."""
    if event.operation in _OPERATIONS:
        return frozenset({_OPERATIONS[event.operation]})
    found = (_kind(step) for step in event.alters) if event.operation is DDLOperation.ALTER_TABLE else ()
    return frozenset(kind for kind in found if kind)


def _kind(step: Alter) -> str:
    if step.kind is AlterKind.RETYPE_COLUMN:
        is_wider = step.previous is None or step.column is None or holds_all(step.column.type, step.previous.type)
        return "widenType" if is_wider else "changeType"
    return _ALTERS.get(step.kind, "")


def holds_all(new: DataType, old: DataType) -> bool:
    """Whether a type holds all values of another one, exactly; False where that is not certain."""
    if new == old:
        return True
    after, before = new.arrow, old.arrow
    if pa.types.is_signed_integer(before):
        if pa.types.is_signed_integer(after):
            return int(after.bit_width) >= int(before.bit_width)
        if pa.types.is_decimal(after):
            return bool(after.precision - after.scale >= _INTEGER_DIGITS[before.bit_width])
    if pa.types.is_decimal(before) and pa.types.is_decimal(after):
        digits = after.precision - after.scale >= before.precision - before.scale
        return bool(digits and after.scale >= before.scale)
    return (before, after) == (pa.float32(), pa.float64())


def in_words(event: DDLEvent) -> str:
    """The change, without values."""
    if event.operation in _OPERATIONS:
        return str(event.operation).replace("_", " ")
    return ", ".join(_step_in_words(step) for step in event.alters) or "ALTER TABLE"


def _step_in_words(step: Alter) -> str:
    before, after = step.previous, step.column
    if step.kind is AlterKind.RENAME_COLUMN and before is not None and after is not None:
        return f"RENAME COLUMN {before.name} TO {after.name}"
    if step.kind is AlterKind.RETYPE_COLUMN and before is not None and after is not None:
        return f"ALTER COLUMN {after.name} TYPE {before.type} TO {after.type}"
    named = after or before
    what = str(step.kind).replace("_", " ")
    if named is None:
        return what
    return f"{what} {named.name} {named.type}" if step.kind is AlterKind.ADD_COLUMN else f"{what} {named.name}"
