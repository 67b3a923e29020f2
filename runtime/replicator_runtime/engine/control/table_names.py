"""Finds the tables that an operator names, as `table`, `schema.table` or `database.schema.table`, quoted as in SQL where needed."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replicator_sdk import TableId

_PART = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^."`]+)')


def parse_name(text: str) -> tuple[str, ...] | None:
    """The parts of a name, the last one the table's; None when it is no name."""
    parts: list[str] = []
    place = 0
    while match := _PART.match(text, place):
        double, back, plain = match.groups()
        parts.append(double.replace('""', '"') if double else back.replace("``", "`") if back else plain)
        place = match.end()
        if place == len(text):
            return tuple(parts)
        if text[place] != ".":
            return None
        place += 1
    return None


def named_tables(name: str, tables: Iterable[TableId]) -> list[TableId]:
    """All of `tables` that `name` may mean, as SQL or as errors and `status` print them."""
    known = list(tables)
    wanted = parse_name(name) or ()
    found = [table for table in known if wanted and _parts(table)[-len(wanted) :] == wanted]
    return found or [table for table in known if str(table) == name]  # of a name with dots or quotes


def find_table(name: str, tables: Iterable[TableId]) -> TableId:
    """The one of `tables` that `name` means.

    Raises:
        NeedsUserError: RPL-1220 when there is none, or more than one.
    """
    known = list(tables)
    found = named_tables(name, known)
    if len(found) == 1:
        return found[0]
    if found:
        raise NeedsUserError(
            f"{name} means several tables of the pipeline",
            code="RPL-1220",
            hint=f"give schema or database as well: {', '.join(sorted('.'.join(_parts(table)) for table in found))}",
            table=name,
        )
    if not known:
        raise NeedsUserError(
            f"{name} is not known yet: no run has found a table, since the start or the last reset",
            code="RPL-1220",
            hint="start it with `replicator run`, which finds the tables and copies them",
            table=name,
        )
    near = difflib.get_close_matches(name, [str(table) for table in known], 1)
    raise NeedsUserError(
        f"{name} is no table of the pipeline",
        code="RPL-1220",
        hint=(f"did you mean {near[0]}? " if near else "") + "`replicator status` lists the tables of the pipeline",
        table=name,
    )


def quoted_name(table: TableId) -> str:
    """A name by which `find_table` finds exactly this table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in _parts(table))


def _parts(table: TableId) -> tuple[str, ...]:
    return tuple(part for part in (table.database, table.schema, table.table) if part)
