"""Listing and describing a source's tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One line of a table list.

    Attributes:
        table: Its name.
        columns: How many columns.
        estimated_rows: About how many rows; -1 unknown.
        estimated_bytes: About how many bytes; -1 unknown.
    """

    table: TableId
    columns: int
    estimated_rows: int = -1
    estimated_bytes: int = -1


class TableRegistry(ABC):
    """Reads a source's catalogue. Used by one thread; holds a connection until closed.

    Class attributes:
        lists_all: Whether a table that is not listed is not there. False where only the log shows which tables exist, as topics do:
            a table of an earlier run is then continued although none of its records is left.
    """

    lists_all: ClassVar[bool] = True

    @abstractmethod
    def list_tables(self) -> list[TableSummary]:
        """All tables the user may see that could be replicated, sorted by name; system tables left out."""

    @abstractmethod
    def describe_table(self, table: TableId) -> TableSchema:
        """The schema of one table in standard types.

        Raises:
            NeedsUserError: When the table is not there or may not be read.
        """

    def is_ahead(self, table: TableId, offset: Offset) -> bool:  # noqa: ARG002 - for overriders
        """Whether everything the log holds of `table` is after `offset`; False when unknown.

        Asked, only of sources without snapshots, before a table is taken in that earlier runs did not select: reading
        on after `offset` then misses nothing of it.
        """
        return False

    def close(self) -> None:
        """Release the connection; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FixedTables(TableRegistry):
    """A registry of tables that are known beforehand."""

    def __init__(self, *schemas: TableSchema) -> None:
        self._schemas = {schema.table: schema for schema in schemas}

    def list_tables(self) -> list[TableSummary]:
        """All of them."""
        return [TableSummary(table, len(schema.columns)) for table, schema in sorted(self._schemas.items())]

    def describe_table(self, table: TableId) -> TableSchema:
        """One of them."""
        if table not in self._schemas:
            raise NeedsUserError(
                "there is no such table", code="RPL-3902", hint="look at `replicator tables`", table=str(table)
            )
        return self._schemas[table]
