"""Which changes of structure leave readers of a merge-on-read table the rows that the source has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from replicator_sdk.datatype import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    STRING,
    TIME,
    UUID,
    DataType,
    Decimal,
)
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.merge_on_read.definition import MergeOnReadDefinition

Stored = Callable[[DataType], object]
"""Returns the type by which a target stores a standard one."""
_NUMBERS: Final = frozenset({INT8, INT16, INT32, INT64, FLOAT32, FLOAT64})
_TEXTS: Final = frozenset({STRING, JSON, UUID, TIME})


def obstacle(
    before: MergeOnReadDefinition | None, after: MergeOnReadDefinition, steps: Sequence[Alter], stored: Stored
) -> str:
    """Why readers would see other rows after `steps`; empty when they would not.

    Args:
        before: The keys that the table's rows were written for, by its properties; None for a merged table.
        after: The keys for the columns after the steps, by the present settings.
        steps: What changes.
        stored: The types of the target.
    """
    if before is None:
        return "the table is not one of the mode merge-on-read"
    former = {name: name for name in before.columns()}  # by the name after the steps so far
    for step in steps:
        name = former.get(step.previous.name) if step.previous else None
        if name is None or step.previous is None:
            continue
        if step.kind is AlterKind.DROP_COLUMN:
            return f"column {name!r} is dropped"
        if step.kind is AlterKind.RENAME_COLUMN and step.column is not None:
            former[step.column.name] = former.pop(step.previous.name)
        if step.kind is not AlterKind.RETYPE_COLUMN or step.column is None:
            continue
        if not _same_to_readers(before, name, step.previous.type, step.column.type, stored):
            return f"values of column {name!r} compare in another way, or say another thing, as {step.column.type}"
    names = {name: now for now, name in former.items()}
    return "" if before.renamed(names.__getitem__) == after else "its rows were written for other keys than it has now"


def _same_to_readers(
    definition: MergeOnReadDefinition, name: str, old: DataType, new: DataType, stored: Stored
) -> bool:
    """Whether the column has its part in the definition also by its values of the new type, those of replaced rows included."""
    if stored(old) == stored(new):
        return True
    if name == definition.tombstone_key:
        return BOOL not in (old, new)  # NULL stays NULL, but false becomes a number
    return (_is_number(old) and _is_number(new)) or (new in _TEXTS and name in definition.primary_key)


def _is_number(kind: DataType) -> bool:
    return kind in _NUMBERS or isinstance(kind, Decimal)
