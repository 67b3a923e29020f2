"""What a statement does to tables, as read from its text, without their definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.parse.action import Action, KeySyntax
from replicator_source_mysql.ddl.parse.column_syntax import ColumnSyntax


@dataclass(frozen=True, slots=True)
class Harmless:
    """Changes no table's structure, and no row without a row event."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with its columns.

    Attributes:
        table: Its name.
        columns: In order.
        keys: Primary key, unique keys and indexes, in the order in which the statement names them, those of columns too.
        charset: The table's default character set; empty for the database's.
        if_not_exists: Whether an existing table stays as it is.
        or_replace: Whether an existing table is dropped first.
        session: Whose statement it is.
    """

    table: TableId
    columns: tuple[ColumnSyntax, ...]
    keys: tuple[KeySyntax, ...]
    charset: str
    if_not_exists: bool
    or_replace: bool
    session: Session


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    """CREATE TABLE … LIKE: an empty table of the same structure."""

    table: TableId
    like: TableId
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE."""

    tables: tuple[TableId, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameTables:
    """RENAME TABLE; the pairs apply one after another."""

    pairs: tuple[tuple[TableId, TableId], ...]


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE, also CREATE INDEX and DROP INDEX.

    Attributes:
        table: Its name before.
        actions: In the order of the statement; what says nothing about columns, keys or rows is left out.
        session: Whose statement it is.
    """

    table: TableId
    actions: tuple[Action, ...]
    session: Session


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """Every row is gone, without row events."""

    table: TableId


@dataclass(frozen=True, slots=True)
class RepairTables:
    """REPAIR TABLE: rows that cannot be read are removed without row events."""

    tables: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """CREATE DATABASE; `charset` is empty when it is not known."""

    database: str
    charset: str
    if_not_exists: bool
    or_replace: bool


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE with another default character set."""

    database: str
    charset: str


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE with all its tables."""

    database: str


@dataclass(frozen=True, slots=True)
class StatementDml:
    """Rows changed by a statement instead of row events: `binlog_format` was not ROW.

    Attributes:
        tables: Which tables; empty when the text does not show them.
    """

    tables: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The text is not understood.

    Attributes:
        tables: The tables it names; None when it may touch any.
        reason: Why, without literals of the statement.
        head: Its first words, without literals.
    """

    tables: tuple[TableId, ...] | None
    reason: str
    head: str


Effect: TypeAlias = (
    Harmless | CreateTable | CreateTableLike | DropTables | RenameTables | AlterTable | TruncateTable | CreateDatabase
    | AlterDatabase | DropDatabase | StatementDml | RepairTables | Unreadable
)  # fmt: skip
