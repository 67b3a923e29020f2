"""Tables, columns and their schemas as the replicator knows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from replicator_sdk.datatype import DataType, parse_type


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table's full name at the source, in the source's own spelling.

    Attributes:
        database: The database (for SQLite its schema name, `main`).
        table: The table.
        schema: The schema inside the database; empty for sources without one.
    """

    database: str
    table: str
    schema: str = ""

    @property
    def folder(self) -> str:
        """The name one level above the table: the schema where there is one, else the database."""
        return self.schema or self.database

    def __str__(self) -> str:
        return f"{self.folder}.{self.table}"

    def to_json(self) -> dict[str, str]:
        """The JSON form used in state files and events."""
        return {"database": self.database, "schema": self.schema, "table": self.table}

    @classmethod
    def from_json(cls, value: dict[str, str]) -> Self:
        """The inverse of `to_json`."""
        return cls(value["database"], value["table"], value.get("schema", ""))


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: The source's own name, case included.
        type: The standard type its values travel in.
        nullable: Whether the source allows NULL.
        source_type: The source's own type, as its people write it, e.g. `numeric(12,2)`.
        source_id: The source's stable identity of the column (Postgres attribute number), which distinguishes a rename
            from a drop and an add; empty where the source has none.
    """

    name: str
    type: DataType
    nullable: bool = True
    source_type: str = ""
    source_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form used in state files."""
        return {
            "name": self.name,
            "type": str(self.type),
            "nullable": self.nullable,
            "sourceType": self.source_type,
            "sourceId": self.source_id,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            value["name"],
            parse_type(value["type"]),
            value["nullable"],
            value.get("sourceType", ""),
            value.get("sourceId", ""),
        )


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema: columns in source order and the key.

    Attributes:
        table: The table.
        columns: In source order.
        primary_key: Names of the columns that identify a row; empty when nothing does (bag semantics). Key values may
            be NULL where the source allows it and are compared null-safely.
        source_id: What identifies the table at the source whatever its name is (Postgres' object identifier); empty where
            the source has no such thing. The runtime keeps the one that a table was copied with and gives it back to readers.
    """

    table: TableId
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    source_id: str = ""
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        by_name = {c.name: c for c in self.columns}
        if len(by_name) != len(self.columns):
            raise ValueError(f"{self.table} has two columns of one name")
        if missing := [k for k in self.primary_key if k not in by_name]:
            raise ValueError(f"{self.table} has no column for the key {missing}")
        object.__setattr__(self, "_by_name", by_name)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in source order."""
        return tuple(c.name for c in self.columns)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema rows of this table travel in; every field nullable, since deletes carry NULLs."""
        return pa.schema([pa.field(c.name, c.type.arrow) for c in self.columns])

    @property
    def struct(self) -> pa.StructType:
        """The same as one Arrow struct type."""
        return pa.struct(list(self.arrow))

    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns in key order."""
        return tuple(self._by_name[name] for name in self.primary_key)

    def select(self, names: Iterable[str]) -> TableSchema:
        """The schema with only `names` (and always the key), in source order."""
        wanted = {*names, *self.primary_key}
        return replace_columns(self, (c for c in self.columns if c.name in wanted))

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that differ when names, types, nullability, order or key differ."""
        facts = {name: value for name, value in self.to_json().items() if name != "sourceId"}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The JSON form used in state files."""
        value: dict[str, Any] = {
            "table": self.table.to_json(),
            "columns": [c.to_json() for c in self.columns],
            "primaryKey": list(self.primary_key),
        }
        return {**value, "sourceId": self.source_id} if self.source_id else value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        columns = tuple(Column.from_json(c) for c in value["columns"])
        return cls(TableId.from_json(value["table"]), columns, tuple(value["primaryKey"]), value.get("sourceId", ""))


def replace_columns(schema: TableSchema, columns: Iterable[Column]) -> TableSchema:
    """`schema` with other columns and the same key."""
    return TableSchema(schema.table, tuple(columns), schema.primary_key, schema.source_id)


def rename_table(schema: TableSchema, table: TableId) -> TableSchema:
    """`schema` under another table's name."""
    return TableSchema(table, schema.columns, schema.primary_key, schema.source_id)
