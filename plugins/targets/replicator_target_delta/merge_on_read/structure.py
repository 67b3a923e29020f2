"""Which changes of structure leave readers of a merge-on-read table the rows that the source has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replicator_sdk.datatype import DataType
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.merge_on_read import MergeOnReadDefinition
from replicator_target_delta.schema.types import spark_type

_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double", "decimal(")
_BOOL, _TEXT = "boolean", "string"


def obstacle(before: MergeOnReadDefinition | None, after: MergeOnReadDefinition, steps: Sequence[Alter]) -> str:
    """Why readers would see other rows after `steps`; empty when they would not.

    Args:
        before: The keys that the table's rows were written for, by its properties; None for a merged table.
        after: The keys for the columns after the steps, by the present settings.
        steps: What changes.
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
        if not _same_to_readers(before, name, step.previous.type, step.column.type):
            return f"values of column {name!r} compare in another way, or say another thing, as {step.column.type}"
    names = {name: now for now, name in former.items()}
    followed = MergeOnReadDefinition(
        tuple(names[name] for name in before.primary_key),
        tuple(names[name] for name in before.watermark_keys),
        None if before.tombstone_key is None else names[before.tombstone_key],
        before.tombstone_string_key_value,
    )
    return "" if followed == after else "its rows were written for other keys than it has now"


def _same_to_readers(definition: MergeOnReadDefinition, name: str, old: DataType, new: DataType) -> bool:
    """Whether the column has its part in the definition also by its values of the new type, those of replaced rows included."""
    before, after = spark_type(old), spark_type(new)
    if before == after:
        return True
    if name == definition.tombstone_key:
        return _BOOL not in (before, after)  # NULL stays NULL, but false becomes a number
    numbers = str(before).startswith(_NUMBERS) and str(after).startswith(_NUMBERS)
    return numbers or (after == _TEXT and name in definition.primary_key)
