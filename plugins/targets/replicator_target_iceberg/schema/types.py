"""The standard types as Iceberg has them, in its JSON form, and as Arrow writes them to Parquet with Iceberg's field identities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INSTANT,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    Array,
    DataType,
    Decimal,
    Record,
)
from replicator_sdk.errors import SchemaDriftError

FIELD_ID: Final = b"PARQUET:field_id"

# Spark reads no `time` of Iceberg's, and a UUID of another program's as text: both are text, as in the Delta target.
_SIMPLE: Final[dict[DataType, str]] = {
    BOOL: "boolean",
    INT8: "int",
    INT16: "int",
    INT32: "int",
    INT64: "long",
    FLOAT32: "float",
    FLOAT64: "double",
    STRING: "string",
    JSON: "string",
    UUID: "string",
    TIME: "string",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp",
    INSTANT: "timestamptz",
}
_ARROW: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_WIDER: Final = frozenset({("int", "long"), ("float", "double")})


def iceberg_type(kind: DataType) -> Any:
    """Iceberg's JSON form of a standard type; the identities of nested fields are 0, and the library gives them others.

    Raises:
        SchemaDriftError: When Iceberg has no place for it.
    """
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, Decimal):
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, Array):
        return {"type": "list", "element-id": 0, "element-required": False, "element": iceberg_type(kind.element)}
    if isinstance(kind, Record) and kind.fields:
        return {"type": "struct", "fields": [field(name, iceberg_type(inner)) for name, inner in kind.fields]}
    raise SchemaDriftError(f"Iceberg has no type for {kind}", code="RPL-6420", hint="leave the column out by `columns`")


def field(name: str, kind: Any, *, required: bool = False) -> dict[str, Any]:
    """A column in Iceberg's JSON form."""
    return {"id": 0, "name": name, "required": required, "type": kind}


def numbered(fields: list[dict[str, Any]], first: int = 1) -> list[dict[str, Any]]:
    """The same fields with identities, which a schema is parsed by; a new table gets its own from the library."""
    return _Numbers(first).fields(fields)


class _Numbers:
    def __init__(self, first: int) -> None:
        self._next = first

    def fields(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**f, "id": self._take(), "type": self._type(f["type"])} for f in fields]

    def _type(self, kind: Any) -> Any:
        if isinstance(kind, str):
            return kind
        if kind["type"] == "list":
            return {**kind, "element-id": self._take(), "element": self._type(kind["element"])}
        return {**kind, "fields": self.fields(kind["fields"])}

    def _take(self) -> int:
        self._next += 1
        return self._next - 1


def is_wider(before: Any, after: Any) -> bool:
    """Whether Iceberg gives a column the type `after` without writing its files again."""
    if (before, after) in _WIDER:
        return True
    old, new = (_DECIMAL.fullmatch(kind) if isinstance(kind, str) else None for kind in (before, after))
    return bool(old and new and old[2] == new[2] and int(old[1]) <= int(new[1]))


def same_type(left: Any, right: Any) -> bool:
    """Whether two types in JSON form are one, whatever the identities of their fields."""
    if isinstance(left, str) or isinstance(right, str):
        return bool(_plain(left) == _plain(right))
    if left["type"] != right["type"]:
        return False
    if left["type"] == "list":
        return same_type(left["element"], right["element"])
    if left["type"] != "struct" or len(left["fields"]) != len(right["fields"]):
        return False
    pairs = zip(left["fields"], right["fields"], strict=True)
    return all(a["name"] == b["name"] and same_type(a["type"], b["type"]) for a, b in pairs)


def _plain(kind: Any) -> Any:
    return kind.replace(" ", "") if isinstance(kind, str) else None


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of a type in JSON form, nested fields with their identities.

    Raises:
        SchemaDriftError: RPL-6430 for one that this target never writes, such as `map`.
    """
    if isinstance(kind, str):
        if decimal := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if kind not in _ARROW:
            raise _foreign_type(kind)
        return _ARROW[kind]
    if kind["type"] not in {"list", "struct"}:
        raise _foreign_type(kind["type"])
    if kind["type"] == "list":
        inner = arrow_type(kind["element"])
        return pa.list_(pa.field("element", inner, metadata={FIELD_ID: str(kind["element-id"]).encode()}))
    return pa.struct([arrow_field(inner) for inner in kind["fields"]])


def _foreign_type(name: str) -> SchemaDriftError:
    return SchemaDriftError(
        f"another program has given the target's table a column of the type {name}, which this target does not read",
        code="RPL-6430",
        hint="have that program take the column out, or copy the table again: `replicator table resync NAME TABLE`",
    )


def arrow_field(column: dict[str, Any]) -> pa.Field:
    """A column or a nested field as Parquet files have it."""
    marks = {FIELD_ID: str(column["id"]).encode()}
    return pa.field(column["name"], arrow_type(column["type"]), nullable=not column["required"], metadata=marks)


def field_id(column: pa.Field) -> int | None:
    """The identity that a field of a file has; None when its writer gave it none."""
    marks = column.metadata or {}
    return int(marks[FIELD_ID]) if FIELD_ID in marks else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table at one version, in order. Immutable.

    Attributes:
        columns: In Iceberg's JSON form.
        arrow: The same as data files have them.
    """

    columns: tuple[dict[str, Any], ...]
    arrow: pa.Schema

    @classmethod
    def of(cls, schema: dict[str, Any]) -> Layout:
        """The layout of a schema in JSON form.

        Raises:
            SchemaDriftError: RPL-6430 when the table has a type that this target never writes, such as `map`.
        """
        columns = tuple(schema["fields"])
        return cls(columns, pa.schema([arrow_field(column) for column in columns]))

    def __getitem__(self, name: str) -> dict[str, Any]:
        return next(column for column in self.columns if column["name"] == name)

    def __contains__(self, name: object) -> bool:
        return any(column["name"] == name for column in self.columns)

    def field(self, name: str) -> pa.Field:
        """A column as data files have it."""
        return self.arrow.field(self.arrow.get_field_index(name))
