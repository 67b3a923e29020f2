"""Tables as MySQL and MariaDB define them: what is needed to decode a row of the binlog, and what its schema is built from.

The binlog names a table and the physical types of its columns, but by default (`binlog_row_metadata=MINIMAL`) neither the
columns' names nor signedness, character sets or the members of an ENUM. A definition holds them. It comes from the
catalogue or from the statement in the binlog that made it, in the same form either way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from replicator_sdk.schema import TableId

PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column.

    Attributes:
        name: As the server spells it.
        type: As `information_schema.COLUMNS.COLUMN_TYPE` writes it, in lower case but for the members of an ENUM or SET:
            `int unsigned`, `decimal(12,2)`, `enum('a','b')`. Display widths of integers are optional.
        nullable: Whether NULL is allowed.
        charset: The character set of text, ENUM and SET (`utf8mb4`); empty for all other types.
        default: The text of a constant default; None when there is none, or it is NULL, or an expression.
        has_expression_default: Whether the default is computed for each row (`DEFAULT (uuid())`, also
            CURRENT_TIMESTAMP), so that the value older rows got cannot be known from the statement.
        is_generated: Whether it is a generated column, virtual or stored.
        is_invisible: Whether `SELECT *` leaves it out.
        is_auto_increment: Whether the server numbers its rows; False as well in what older versions stored.
    """

    name: str
    type: str
    nullable: bool = True
    charset: str = ""
    default: str | None = None
    has_expression_default: bool = False
    is_generated: bool = False
    is_invisible: bool = False
    is_auto_increment: bool = False

    def to_json(self) -> dict[str, Any]:
        """The form kept in state; what has its usual value is left out."""
        stored: dict[str, Any] = {"name": self.name, "type": self.type}
        if not self.nullable:
            stored["nullable"] = False
        if self.charset:
            stored["charset"] = self.charset
        if self.default is not None:
            stored["default"] = self.default
        flags = {
            "expressionDefault": self.has_expression_default,
            "generated": self.is_generated,
            "invisible": self.is_invisible,
            "autoIncrement": self.is_auto_increment,
        }
        return stored | {name: True for name, is_set in flags.items() if is_set}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            value["name"],
            value["type"],
            value.get("nullable", True),
            value.get("charset", ""),
            value.get("default"),
            value.get("expressionDefault", False),
            value.get("generated", False),
            value.get("invisible", False),
            value.get("autoIncrement", False),
        )


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary or unique key; other indexes say nothing about rows and are not kept.

    Attributes:
        name: Its name; `PRIMARY` for the primary key.
        columns: Its columns in key order. A key over a part of a column (`name(10)`) counts with the whole column: what
            is unique in its beginning is unique. Empty when a part is an expression: such a key identifies nothing.
    """

    name: str
    columns: tuple[str, ...]

    @property
    def is_primary(self) -> bool:
        """Whether it is the primary key."""
        return self.name == PRIMARY


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """One version of a table.

    Attributes:
        table: Whose definition it is.
        columns: In the table's order, which is the order of values in the binlog; generated and invisible ones too.
        keys: Primary and unique keys, in the order in which they were made.
        charset: Default character set of columns added later.
    """

    table: TableId
    columns: tuple[ColumnDefinition, ...]
    keys: tuple[UniqueKey, ...] = ()
    charset: str = ""
    _by_name: dict[str, ColumnDefinition] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        by_name = {column.name.lower(): column for column in self.columns}
        if len(by_name) != len(self.columns):
            raise ValueError(f"{self.table} has two columns of one name")
        object.__setattr__(self, "_by_name", by_name)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._by_name

    def __getitem__(self, name: str) -> ColumnDefinition:
        """A column by name; MySQL compares names of columns without case."""
        return self._by_name[name.lower()]

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that identify a row, spelled as the columns are: the primary key, else the first unique key
        without a nullable column; empty when there is neither (the binlog calls it the primary key equivalent).
        """
        primary = [key for key in self.keys if key.is_primary]
        unique = [key for key in self.keys if not key.is_primary and self._is_not_null(key)]
        chosen = (primary + unique)[:1]
        return tuple(self[name].name for key in chosen for name in key.columns)

    def _is_not_null(self, key: UniqueKey) -> bool:
        return bool(key.columns) and all(name in self and not self[name].nullable for name in key.columns)

    def renamed(self, table: TableId) -> TableDefinition:
        """The same under another name."""
        return replace(self, table=table)

    def with_columns(self, columns: Iterable[ColumnDefinition]) -> TableDefinition:
        """The same with other columns."""
        return replace(self, columns=tuple(columns))

    def to_json(self) -> dict[str, Any]:
        """The form kept in state."""
        return {
            "table": self.table.to_json(),
            "columns": [column.to_json() for column in self.columns],
            "keys": [{"name": key.name, "columns": list(key.columns)} for key in self.keys],
            "charset": self.charset,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            TableId.from_json(value["table"]),
            tuple(map(ColumnDefinition.from_json, value["columns"])),
            tuple(UniqueKey(key["name"], tuple(key["columns"])) for key in value["keys"]),
            value["charset"],
        )
