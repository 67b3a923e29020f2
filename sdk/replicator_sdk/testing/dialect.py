"""Steps of a history as SQL. Subclass it for what a database spells its own way."""
# ruff: noqa: S608, PLR0911 - statements of tests; one return for each kind

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from replicator_sdk.datatype import Array, DataType, Decimal
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.histories.history import Step, column
from replicator_sdk.testing.histories.values import from_json
from replicator_sdk.testing.simulate import complete_row, renamed


class SqlDialect:
    """Standard SQL, as far as there is one.

    Attributes:
        types: Standard type name → column type.
        row_address: How to name one of several equal rows; empty when the database cannot.
    """

    types: ClassVar[Mapping[str, str]] = {
        "bool": "boolean",
        "int8": "smallint",
        "int16": "smallint",
        "int32": "integer",
        "int64": "bigint",
        "float32": "real",
        "float64": "double precision",
        "string": "text",
        "binary": "bytea",
        "date": "date",
        "time": "time",
        "timestamp": "timestamp",
        "instant": "timestamp with time zone",
        "json": "json",
        "uuid": "uuid",
    }
    row_address: ClassVar[str] = ""

    def quote(self, name: str) -> str:
        """An identifier."""
        return '"' + name.replace('"', '""') + '"'

    def table(self, table: TableId) -> str:
        """A table's name in a statement."""
        return f"{self.quote(table.schema)}.{self.quote(table.table)}" if table.schema else self.quote(table.table)

    def type_name(self, kind: DataType) -> str:
        """A column type."""
        if isinstance(kind, Decimal):
            return f"numeric({kind.precision},{kind.scale})"
        if isinstance(kind, Array):
            return f"{self.type_name(kind.element)}[]"
        return self.types[kind.name]

    def literal(self, kind: DataType, value: Any) -> str:
        """A value in a statement."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, bytes):
            return self.binary(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else self.not_finite(value)
        if isinstance(value, list) and isinstance(kind, Array):
            elements = ", ".join(self.literal(kind.element, v) for v in value)
            return f"CAST(ARRAY[{elements}] AS {self.type_name(kind)})"
        if isinstance(value, int) or isinstance(kind, Decimal):
            return f"{value:f}" if isinstance(kind, Decimal) else str(value)
        return self.text(str(value))

    def text(self, value: str) -> str:
        """A string literal."""
        return "'" + value.replace("'", "''") + "'"

    def binary(self, value: bytes) -> str:
        """A literal of bytes."""
        return f"X'{value.hex()}'"

    def not_finite(self, value: float) -> str:
        """NaN and the infinities."""
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS double precision)"

    def create_table(self, schema: TableSchema) -> str:
        """The statement that makes a table."""
        parts = [self.column(c) for c in schema.columns]
        if schema.primary_key:
            parts.append(f"PRIMARY KEY ({', '.join(map(self.quote, schema.primary_key))})")
        return f"CREATE TABLE {self.table(schema.table)} ({', '.join(parts)})"

    def column(self, column: Column) -> str:
        """A column's definition."""
        return f"{self.quote(column.name)} {self.type_name(column.type)}{'' if column.nullable else ' NOT NULL'}"

    def statements(self, step: Step, schema: TableSchema) -> list[str]:
        """What to execute for a step on the table that looks like `schema` now."""
        name = self.table(schema.table)
        match step.kind:
            case "insert":
                return [self._insert(name, schema, row) for row in step.facts["rows"]]
            case "update":
                values = step.facts["set"].items()
                settings = ", ".join(f"{self.quote(n)} = {self._value(schema, n, v)}" for n, v in values)
                return [f"UPDATE {name} SET {settings} WHERE {self._where(step, schema)}"]
            case "delete":
                return [f"DELETE FROM {name} WHERE {self._where(step, schema)}"]
            case "truncate":
                return [f"TRUNCATE TABLE {name}"]
            case "add_column":
                return [f"ALTER TABLE {name} ADD COLUMN {self._added(step)}"]
            case "drop_column":
                return [f"ALTER TABLE {name} DROP COLUMN {self.quote(step.facts['name'])}"]
            case "retype_column":
                return [self.retype(name, column(step.facts["name"], step.facts["type"]))]
            case "change_key":
                return self.change_key(schema, step.facts["key"])
            case _:
                return self.renames(name, renamed(step))

    def renames(self, table: str, names: Mapping[str, str]) -> list[str]:
        """The statements that rename columns; several take the names of each other, so they first get names of their own.

        A database with one statement for all of them overrides it, since that is what its users write.
        """
        if len(names) == 1:
            return [self._rename(table, *pair) for pair in names.items()]
        aside = {name: f"renamed_{i}" for i, name in enumerate(names)}
        return [self._rename(table, old, aside[old]) for old in names] + [
            self._rename(table, aside[old], new) for old, new in names.items()
        ]

    def retype(self, table: str, column: Column) -> str:
        """The statement that gives a column another type and keeps its values."""
        return f"ALTER TABLE {table} ALTER COLUMN {self.quote(column.name)} TYPE {self.type_name(column.type)}"

    def change_key(self, schema: TableSchema, key: Sequence[str]) -> list[str]:
        """The statements that give a table another key; several are one transaction."""
        name, listed = self.table(schema.table), ", ".join(map(self.quote, key))
        constraint = self.quote(f"{schema.table.table}_pkey")
        return [f"ALTER TABLE {name} DROP CONSTRAINT {constraint}", f"ALTER TABLE {name} ADD PRIMARY KEY ({listed})"]

    def _rename(self, table: str, old: str, new: str) -> str:
        return f"ALTER TABLE {table} RENAME COLUMN {self.quote(old)} TO {self.quote(new)}"

    def _insert(self, name: str, schema: TableSchema, row: Mapping[str, Any]) -> str:
        complete = complete_row(schema, row)
        columns = ", ".join(map(self.quote, complete))
        values = ", ".join(self.literal(schema[n].type, v) for n, v in complete.items())
        return f"INSERT INTO {name} ({columns}) VALUES ({values})"

    def _value(self, schema: TableSchema, name: str, value: Any) -> str:
        return self.literal(schema[name].type, from_json(schema[name].type, value))

    def _where(self, step: Step, schema: TableSchema) -> str:
        conditions = [
            f"{self.quote(n)} IS NULL" if v is None else f"{self.quote(n)} = {self._value(schema, n, v)}"
            for n, v in step.facts["where"].items()
        ]
        condition = " AND ".join(conditions) or "1 = 1"
        if "limit" not in step.facts:
            return condition
        chosen = f"SELECT {self.row_address} FROM {self.table(schema.table)} WHERE {condition}"
        return f"{self.row_address} IN ({chosen} LIMIT {step.facts['limit']})"

    def _added(self, step: Step) -> str:
        new = column(step.facts["name"], step.facts["type"])
        default = from_json(new.type, step.facts.get("default"))
        return self.column(new) + ("" if default is None else f" DEFAULT {self.literal(new.type, default)}")
