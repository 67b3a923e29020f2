"""Orders the renames of a table's columns so that a target can apply them one after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column


def ordered_renames(renames: Sequence[tuple[Column, str]], names: Iterable[str] = ()) -> list[Alter]:
    """Returns one RENAME_COLUMN step after another, none of which takes a name that a later step gives away.

    A chain (`a` to `b`, `b` to `c`) starts at its end. In a cycle (`a` to `b`, `b` to `a`) the first column is renamed
    twice: to a name that is not in use, and at the end to its own. Two names that differ only in case are the same
    name here, because many targets do not distinguish them; where a column that keeps its name has the other spelling,
    no order helps and the step is returned as it is. Equal arguments give equal steps, so that a replay repeats them.

    A source that compares a table before and after a change calls it with the columns that exist in both. It emits
    dropped columns before these steps, and changed types and added columns after them.

    Args:
        renames: The columns before the change, each with its name after it; those that keep their name are ignored.
        names: All other names that the table has before or after; none of them becomes a temporary name.
    """
    waiting = [(column, name) for column, name in renames if column.name != name]
    known = {name.lower() for name in names} | {text.lower() for c, name in renames for text in (c.name, name)}
    steps: list[Alter] = []
    while waiting:
        in_use = [column.name.lower() for column, _ in waiting]
        place = next((i for i, (_, name) in enumerate(waiting) if _is_free(name.lower(), in_use, i)), None)
        column, name = waiting.pop(place or 0)
        if place is None:
            aside = _unused(known)
            known.add(aside)
            waiting.append((replace(column, name=aside), name))
            name = aside
        steps.append(Alter(AlterKind.RENAME_COLUMN, column=replace(column, name=name), previous=column))
    return steps


def _is_free(name: str, in_use: Sequence[str], own: int) -> bool:
    return all(used != name for i, used in enumerate(in_use) if i != own)


def _unused(known: set[str]) -> str:
    return next(name for n in range(len(known) + 1) if (name := f"_replicator_renaming_{n}") not in known)
