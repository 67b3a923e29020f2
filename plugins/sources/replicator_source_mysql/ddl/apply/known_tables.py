"""The tables of the followed databases at one log position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from replicator_sdk.schema import TableId
from replicator_source_mysql.definition import TableDefinition, UniqueKey


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table whose definition is known.

    Attributes:
        definition: Its columns and keys.
        indexes: The indexes that are not unique. They say nothing about rows, but their names decide which name the
            server makes up for a key.
        partial: Names of unique keys over the beginning of a column, which the server ranks after others.
    """

    definition: TableDefinition
    indexes: tuple[UniqueKey, ...] = ()
    partial: tuple[str, ...] = ()

    def renamed(self, table: TableId) -> KnownTable:
        """The same under another name."""
        return replace(self, definition=self.definition.renamed(table))


@dataclass(frozen=True, slots=True)
class UnknownTable:
    """A table that exists, with a definition that is not known.

    Attributes:
        reason: Why.
        head: The first words of the statement that did it, without literals.
    """

    reason: str
    head: str


Entry: TypeAlias = KnownTable | UnknownTable


class KnownTables:
    """Tables and databases by name; without case when the server ignores case.

    Not for several threads.

    Args:
        lower_case_table_names: The server's setting: 0 compares names exactly, 1 stores them in lower case, 2 keeps their
            spelling and compares without case.
        is_followed: Whether a database made later belongs to those that are followed.
    """

    def __init__(self, lower_case_table_names: int = 0, is_followed: Callable[[str], bool] = lambda _: True) -> None:
        self._mode = lower_case_table_names
        self._is_followed = is_followed
        self._tables: dict[TableId, tuple[TableId, Entry | Callable[[], Entry]]] = {}
        self._databases: dict[str, str] = {}

    def key(self, table: TableId) -> TableId:
        """The name by which a table is found."""
        return TableId(table.database.lower(), table.table.lower()) if self._mode else table

    def spelled(self, table: TableId) -> TableId:
        """The name as the server stores it."""
        return self.key(table) if self._mode == 1 else table

    def database_key(self, database: str) -> str:
        """The name by which a database is found."""
        return database.lower() if self._mode else database

    def follows(self, database: str) -> bool:
        """Whether tables of the database are kept."""
        return self.database_key(database) in self._databases or self._is_followed(database)

    def get(self, table: TableId) -> Entry | None:
        """What is known of the table; None when there is none."""
        found = self._tables.get(self.key(table))
        return _loaded(found[1]) if found else None

    def name(self, table: TableId) -> TableId:
        """The table's name as it was created."""
        found = self._tables.get(self.key(table))
        return found[0] if found else self.spelled(table)

    def put(self, table: TableId, entry: Entry) -> None:
        """The table exists from now on."""
        self._tables[self.key(table)] = (table, entry)

    def put_lazily(self, table: TableId, load: Callable[[], Entry]) -> None:
        """The table exists; `load` returns what is known of it, when that is first needed."""
        self._tables[self.key(table)] = (table, load)

    def drop(self, table: TableId) -> Entry | None:
        """The table no longer exists; returns what was known of it."""
        found = self._tables.pop(self.key(table), None)
        return _loaded(found[1]) if found else None

    def tables(self, database: str | None = None) -> list[TableId]:
        """All tables, or those of a database, in order of their names."""
        wanted = None if database is None else self.database_key(database)
        return sorted(name for key, (name, _) in self._tables.items() if wanted in {None, key.database})

    def charset(self, database: str) -> str:
        """The default character set of a database; empty when it is not known."""
        return self._databases.get(self.database_key(database), "")

    def put_database(self, database: str, charset: str) -> None:
        """The database exists, with this default."""
        self._databases[self.database_key(database)] = charset

    def drop_database(self, database: str) -> None:
        """The database no longer exists; its tables are dropped one by one."""
        self._databases.pop(self.database_key(database), None)

    def databases(self) -> dict[str, str]:
        """Default character sets by database."""
        return dict(self._databases)

    def has_database(self, database: str) -> bool:
        """Whether the database exists."""
        return self.database_key(database) in self._databases

    def entries(self) -> Iterator[tuple[TableId, Entry]]:
        """Every table with what is known of it."""
        for table, entry in self._tables.values():
            yield table, _loaded(entry)


def _loaded(entry: Entry | Callable[[], Entry]) -> Entry:
    return entry if isinstance(entry, KnownTable | UnknownTable) else entry()
