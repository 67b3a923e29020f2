"""Single steps of an ALTER TABLE, as written."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.parse.column_syntax import ColumnSyntax
from replicator_source_mysql.ddl.parse.default_syntax import DefaultSyntax

FIRST = ""
"""The place before all columns."""


class KeyKind(enum.Enum):
    """What an index is."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    PLAIN = "plain"
    FOREIGN = "foreign"
    """The index a foreign key makes for itself when there is none it can use."""


@dataclass(frozen=True, slots=True)
class KeySyntax:
    """One index.

    Attributes:
        kind: What it is.
        name: Its name; empty when the server makes one up.
        columns: Its columns; empty when a part is an expression.
        if_not_exists: Whether one of this name may be there already.
        is_partial: Whether it holds only the beginning of a column.
    """

    kind: KeyKind
    name: str
    columns: tuple[str, ...]
    if_not_exists: bool = False
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN; `after` is None at the end, `FIRST`, or a column."""

    column: ColumnSyntax
    after: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """MODIFY and CHANGE; `after` is None when it is not moved."""

    name: str
    column: ColumnSyntax
    after: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    name: str
    new_name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT; DROP DEFAULT when the default is none."""

    name: str
    default: DefaultSyntax
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetVisible:
    """ALTER COLUMN … SET VISIBLE or INVISIBLE."""

    name: str
    is_invisible: bool


@dataclass(frozen=True, slots=True)
class AddKey:
    """ADD of a key or index."""

    key: KeySyntax


@dataclass(frozen=True, slots=True)
class DropKey:
    """DROP INDEX, KEY, CONSTRAINT or PRIMARY KEY (name `PRIMARY`); other constraints of the name say nothing here."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameKey:
    """RENAME INDEX."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class Convert:
    """CONVERT TO CHARACTER SET: every text column; empty for the database's."""

    charset: str


@dataclass(frozen=True, slots=True)
class DefaultCharset:
    """The character set of columns added later; empty for the database's."""

    charset: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME TO."""

    table: TableId


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Rows are added or removed without row events: DROP PARTITION, IMPORT TABLESPACE, ALTER IGNORE."""

    what: str


@dataclass(frozen=True, slots=True)
class ExchangeRows:
    """EXCHANGE PARTITION: the rows of two tables change without row events."""

    other: TableId


@dataclass(frozen=True, slots=True)
class PartitionToTable:
    """CONVERT PARTITION … TO TABLE (MariaDB): a new table with rows of this one."""

    new: TableId


@dataclass(frozen=True, slots=True)
class TableToPartition:
    """CONVERT TABLE … TO PARTITION (MariaDB): the other table becomes rows of this one."""

    other: TableId


Action: TypeAlias = (
    AddColumn | ChangeColumn | RenameColumn | DropColumn | SetDefault | SetVisible | AddKey | DropKey | RenameKey
    | Convert | DefaultCharset | RenameTo | ChangeRows | ExchangeRows | PartitionToTable | TableToPartition
)  # fmt: skip
