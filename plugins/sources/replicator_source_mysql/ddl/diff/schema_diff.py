"""Differences between two definitions of one table, as steps a target can apply, and whether rows have to be read again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from replicator_sdk.authoring.schema_diff import alter_steps
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_source_mysql.ddl.diff.backfill_value import NotKnownError, value_of_older_rows
from replicator_source_mysql.ddl.diff.type_compatibility import keeps_values
from replicator_source_mysql.definition import TableDefinition

_DATES = ("date", "datetime", "timestamp")


def table_steps(
    before: TableDefinition,
    after: TableDefinition,
    old: TableSchema,
    new: TableSchema,
    origins: Mapping[str, str],
    *,
    zero_dates: str = "null",
    rewritten: frozenset[str] = frozenset(),
) -> tuple[tuple[Alter, ...], bool]:
    """The steps from `old` to `new`, and whether every row is what it was apart from them.

    Args:
        before: The table before.
        after: The table after.
        old: The schema its rows travelled in; perhaps of some columns only.
        new: The schema its rows travel in.
        origins: Names before of columns that were there before, by their names after.
        zero_dates: The source's `zeroDates`.
        rewritten: Columns, by names after, whose values may have been computed again.
    """
    defaults = _defaults(after, new, origins, zero_dates)
    steps = alter_steps(old, new, origins, defaults=defaults)
    added = {step.column.name for step in steps if step.kind is AlterKind.ADD_COLUMN and step.column}
    recomputed = any(name in new for name in rewritten) or _recomputes(before, after, new, origins, rewritten)
    keeps = not recomputed and added <= defaults.keys()
    pairs = ((old[was], new[name]) for name, was in origins.items() if was in old and name in new)
    return steps, keeps and all(_keeps(before, after, was, now, zero_dates) for was, now in pairs)


def _defaults(after: TableDefinition, new: TableSchema, origins: Mapping[str, str], zero_dates: str) -> dict[str, Any]:
    """What older rows have in the added columns, as far as it is known."""
    values = {}
    for column in new.columns:
        if column.name not in origins:  # else it existed, captured or not
            with contextlib.suppress(NotKnownError):
                values[column.name] = value_of_older_rows(after[column.name], column, zero_dates)
    return values


def _recomputes(
    before: TableDefinition,
    after: TableDefinition,
    new: TableSchema,
    origins: Mapping[str, str],
    rewritten: frozenset[str],
) -> bool:
    """Whether generated columns may have other values, also of columns that are not captured: `length(a)` differs between
    two character sets.
    """
    if not any(after[name].is_generated for name in new.names if name in after):
        return False
    changed = ((before[was], after[name]) for name, was in origins.items())
    return bool(rewritten) or any(
        (was.type, was.charset) != (now.type, now.charset) or (was.nullable and not now.nullable)
        for was, now in changed
    )


def _keeps(before: TableDefinition, after: TableDefinition, old: Column, new: Column, zero_dates: str) -> bool:
    was, now = before[old.name], after[new.name]
    if was.nullable and not now.nullable:
        return False  # a NULL became the type's own value, unless the server was strict
    if was.is_generated != now.is_generated and now.is_generated:
        return False
    if zero_dates == "text" and was.type != now.type and was.type.startswith(_DATES):
        return False  # as text every digit counts
    return keeps_values(was, now, old.type, new.type)
