"""What the catalogue holds about tables beyond their columns: engine, size, and foreign keys that change their rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.connection import execute
from replicator_source_mysql.snapshots.chunk_plan import qualified

if TYPE_CHECKING:
    import pymysql

_TABLES = """
SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_TYPE, COALESCE(DATA_LENGTH, 0) FROM information_schema.TABLES
WHERE TABLE_SCHEMA IN ({marks})
"""
_FOREIGN_KEYS = """
SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME
FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA IN ({marks}) AND REFERENCED_TABLE_NAME IS NOT NULL
"""
_RULES = re.compile(
    r"^\s*CONSTRAINT `((?:[^`]|``)*)` FOREIGN KEY .*\)((?: ON (?:DELETE|UPDATE) [A-Z ]+?)*),?$", re.MULTILINE
)
_CHANGING = re.compile(r"ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)")


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key that changes rows of its own table.

    Attributes:
        name: Its name.
        parent: The table it refers to.
        rules: `ON DELETE CASCADE` and the like.
    """

    name: str
    parent: TableId
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The facts that findings about a table are based on.

    Attributes:
        table: Its name.
        engine: Its storage engine; empty when it cannot be opened.
        is_versioned: Whether the server keeps its history (MariaDB's system-versioned tables).
        size: About how many bytes its rows take.
        cascades: Foreign keys that change its rows.
    """

    table: TableId
    engine: str
    is_versioned: bool
    size: int
    cascades: tuple[ForeignKey, ...]


def table_facts(connection: pymysql.Connection[Any], tables: Collection[TableId]) -> dict[TableId, TableFacts]:
    """Facts of those of `tables` that exist; two queries for all, and one for each that has a foreign key."""
    databases = sorted({table.database for table in tables})
    if not databases:
        return {}
    marks = ", ".join(["%s"] * len(databases))
    keys: dict[TableId, dict[str, TableId]] = defaultdict(dict)
    for database, name, constraint, *parent in execute(connection, _FOREIGN_KEYS.format(marks=marks), databases):
        keys[TableId(database, name)][constraint] = TableId(*parent)
    found = {
        TableId(database, name): (engine or "", kind == "SYSTEM VERSIONED", int(size))
        for database, name, engine, kind, size in execute(connection, _TABLES.format(marks=marks), databases)
    }
    return {
        table: TableFacts(table, *found[table], _cascades(connection, table, keys.get(table, {})))
        for table in tables
        if table in found
    }


def _cascades(
    connection: pymysql.Connection[Any], table: TableId, parents: dict[str, TableId]
) -> tuple[ForeignKey, ...]:
    """Those of a table's foreign keys that change its rows.

    REFERENTIAL_CONSTRAINTS would say so too, but MariaDB shows it only to accounts that may do more than read.
    """
    if not parents:
        return ()
    written = str(execute(connection, f"SHOW CREATE TABLE {qualified(table)}")[0][1])
    rules = {name.replace("``", "`"): tuple(_CHANGING.findall(actions)) for name, actions in _RULES.findall(written)}
    # A key whose rules cannot be read counts as one that changes rows.
    found = ((name, parent, rules.get(name, ("rules unknown",))) for name, parent in parents.items())
    return tuple(ForeignKey(name, parent, actions) for name, parent, actions in found if actions)
