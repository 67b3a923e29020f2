"""Turns the difference between two schemas of a table into ALTER_TABLE steps that a target can apply in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replicator_sdk.authoring.renames import ordered_renames
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema


def alter_steps(
    old: TableSchema,
    new: TableSchema,
    origins: Mapping[str, str],
    *,
    defaults: Mapping[str, Any] | None = None,
    compare_source_types: bool = True,
) -> tuple[Alter, ...]:
    """Returns all steps from `old` to `new`: those of `column_steps`, then CHANGE_KEY when the key is another one.

    The key is the same when it consists of the same columns in the same order, whatever their names are now.

    Args:
        old: The schema before the change.
        new: The schema after it.
        origins: As in `column_steps`.
        defaults: As in `column_steps`.
        compare_source_types: As in `column_steps`.
    """
    steps = column_steps(old, new, origins, defaults=defaults, compare_source_types=compare_source_types)
    if tuple(origins.get(name) for name in new.primary_key) != old.primary_key:
        steps.append(Alter(AlterKind.CHANGE_KEY))
    return tuple(steps)


def column_steps(
    old: TableSchema,
    new: TableSchema,
    origins: Mapping[str, str],
    *,
    defaults: Mapping[str, Any] | None = None,
    compare_source_types: bool = True,
) -> list[Alter]:
    """Returns the steps from the columns of `old` to those of `new`, each of which can be applied after those before it.

    Dropped columns come first, so that renames can take their names; then renames, in an order in which no name is used
    twice (`ordered_renames`, also for swapped names); then changed types and nullability, under the new names; then added
    columns. Two columns are the same column when `origins` says so, never because their names or types are equal. Equal
    arguments give equal steps, so that a replay of the log repeats them.

    Args:
        old: The schema before the change.
        new: The schema after it.
        origins: Name after the change → name before it, of every column that was there before. Entries whose columns are
            not in both schemas are ignored; a column of `new` without an entry is an added one. Renames, changed types
            and nullability keep the order of this mapping.
        defaults: The value that existing rows have in an added column, by its name; NULL for the others.
        compare_source_types: Whether a change of `Column.source_type` alone is a RETYPE_COLUMN.
    """
    pairs = [(old[was], new[name]) for name, was in origins.items() if was in old and name in new]
    kept = {before.name for before, _ in pairs}
    present = {after.name for _, after in pairs}
    values = defaults or {}
    steps = [Alter(AlterKind.DROP_COLUMN, previous=column) for column in old.columns if column.name not in kept]
    steps += ordered_renames([(before, after.name) for before, after in pairs], [*old.names, *new.names])
    for before, after in pairs:
        steps += _changes(replace(before, name=after.name), after, compare_source_types)
    steps += [
        Alter(AlterKind.ADD_COLUMN, column=column, default=values.get(column.name))
        for column in new.columns
        if column.name not in present
    ]
    return steps


def _changes(old: Column, new: Column, compare_source_types: bool) -> list[Alter]:
    """The changes of type and nullability of a column that has its new name already."""
    steps = []
    if old.type != new.type or (compare_source_types and old.source_type != new.source_type):
        steps.append(Alter(AlterKind.RETYPE_COLUMN, column=replace(new, nullable=old.nullable), previous=old))
    if old.nullable != new.nullable:
        kind = AlterKind.RELAX_COLUMN if new.nullable else AlterKind.TIGHTEN_COLUMN
        steps.append(Alter(kind, column=new, previous=replace(new, nullable=old.nullable)))
    return steps
