"""Differences between two definitions of one table, as steps a target can apply, and whether rows have to be read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_source_mysql.ddl.diff.backfill_value import NotKnownError, value_of_older_rows
from replicator_source_mysql.ddl.diff.type_compatibility import keeps_values
from replicator_source_mysql.definition import TableDefinition

_DATES = ("date", "datetime", "timestamp")


@dataclass(frozen=True, slots=True)
class _Pair:
    """One column before and after."""

    old: Column
    new: Column


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

    Each step can be applied when those before it have been: drops free names for renames, renames for adds. Columns are
    the same one when `origins` says so, never because they look alike.

    Args:
        before: The table before.
        after: The table after.
        old: The schema its rows travelled in; perhaps of some columns only.
        new: The schema its rows travel in.
        origins: Names before of columns that were there before, by their names after.
        zero_dates: The source's `zeroDates`.
        rewritten: Columns, by names after, whose values may have been computed again.
    """
    pairs = [_Pair(old[was], new[name]) for name, was in origins.items() if was in old and name in new]
    kept_old, kept_new = {pair.old.name for pair in pairs}, {pair.new.name for pair in pairs}
    steps = [Alter(AlterKind.DROP_COLUMN, previous=c) for c in old.columns if c.name not in kept_old]
    steps += _renames(pairs, taken={pair.old.name for pair in pairs})
    keeps = not any(name in new for name in rewritten) and not _recomputes(before, after, new, origins, rewritten)
    for pair in pairs:
        steps += _column_steps(replace(pair.old, name=pair.new.name), pair.new)
        keeps = keeps and _keeps(before, after, pair, zero_dates)
    for column in new.columns:
        if column.name not in kept_new:
            added, is_known = _add(after, column, origins, zero_dates)
            steps.append(added)
            keeps = keeps and is_known
    renamed = {pair.old.name: pair.new.name for pair in pairs}
    if tuple(renamed.get(name, "") for name in old.primary_key) != new.primary_key:
        steps.append(Alter(AlterKind.CHANGE_KEY))
    return tuple(steps), keeps


def _add(after: TableDefinition, column: Column, origins: Mapping[str, str], zero_dates: str) -> tuple[Alter, bool]:
    """The step that adds a column, and whether what older rows have in it is known."""
    if column.name in origins:  # it existed, and was not captured until now
        return Alter(AlterKind.ADD_COLUMN, column=column), False
    try:
        value = value_of_older_rows(after[column.name], column, zero_dates)
    except NotKnownError:
        return Alter(AlterKind.ADD_COLUMN, column=column), False
    return Alter(AlterKind.ADD_COLUMN, column=column, default=value), True


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


def _keeps(before: TableDefinition, after: TableDefinition, pair: _Pair, zero_dates: str) -> bool:
    was, now = before[pair.old.name], after[pair.new.name]
    if was.nullable and not now.nullable:
        return False  # a NULL became the type's own value, unless the server was strict
    if was.is_generated != now.is_generated and now.is_generated:
        return False
    if zero_dates == "text" and was.type != now.type and was.type.startswith(_DATES):
        return False  # as text every digit counts
    return keeps_values(was, now, pair.old.type, pair.new.type)


def _column_steps(old: Column, new: Column) -> list[Alter]:
    steps = []
    if (old.type, old.source_type) != (new.type, new.source_type):
        steps.append(Alter(AlterKind.RETYPE_COLUMN, column=replace(new, nullable=old.nullable), previous=old))
    if old.nullable != new.nullable:
        kind = AlterKind.RELAX_COLUMN if new.nullable else AlterKind.TIGHTEN_COLUMN
        steps.append(Alter(kind, column=new, previous=replace(new, nullable=old.nullable)))
    return steps


def _renames(pairs: list[_Pair], taken: set[str]) -> list[Alter]:
    """Renames such that none takes a name in use; in a cycle one column gets a temporary name first.

    Names that differ in case only count as equal, since targets may compare without case.
    """
    open_pairs = [pair for pair in pairs if pair.old.name != pair.new.name]
    in_use = {name.lower() for name in taken}
    steps: list[Alter] = []
    while open_pairs:
        free = next((p for p in open_pairs if p.new.name.lower() not in in_use - {p.old.name.lower()}), None)
        if free is None:
            stuck = open_pairs.pop(0)
            aside = replace(stuck.old, name=_unused(in_use))
            open_pairs.append(_Pair(aside, stuck.new))
            done = _Pair(stuck.old, aside)
        else:
            open_pairs.remove(free)
            done = _Pair(free.old, replace(free.old, name=free.new.name))
        in_use = in_use - {done.old.name.lower()} | {done.new.name.lower()}
        steps.append(Alter(AlterKind.RENAME_COLUMN, column=done.new, previous=done.old))
    return steps


def _unused(names: set[str]) -> str:
    return next(name for n in range(len(names) + 1) if (name := f"_replicator_aside_{n}") not in names)
