"""The standard types as Delta stores them, and back: Spark's JSON type, and the Arrow type written to Parquet.

Delta column mapping gives every column a physical name that never changes; files know only physical names. A rename
or a drop is then a change of the table's metadata alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
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

ID: Final = "delta.columnMapping.id"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"

# TIME has no type in Delta: text `HH:MM:SS.ffffff`, which sorts as time does.
_SIMPLE: Final[dict[DataType, str]] = {
    BOOL: "boolean",
    INT8: "byte",
    INT16: "short",
    INT32: "integer",
    INT64: "long",
    FLOAT32: "float",
    FLOAT64: "double",
    STRING: "string",
    JSON: "string",
    UUID: "string",
    TIME: "string",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp_ntz",
    INSTANT: "timestamp",
}
_ARROW: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
}


def spark_type(kind: DataType) -> Any:
    """Spark's JSON form of a standard type, without column mapping.

    Raises:
        SchemaDriftError: When Delta has no place for it.
    """
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, Decimal):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, Array):
        return {"type": "array", "elementType": spark_type(kind.element), "containsNull": True}
    if isinstance(kind, Record):
        return {"type": "struct", "fields": [_field(name, spark_type(inner)) for name, inner in kind.fields]}
    raise SchemaDriftError(f"Delta has no type for {kind}", code="RPL-6400", hint="leave the column out of `columns`")


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of a Spark JSON type, with the physical names and identities of nested fields."""
    if isinstance(kind, str):
        if kind.startswith("decimal("):
            precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
            return pa.decimal128(int(precision), int(scale))
        return _ARROW[kind]
    if kind["type"] == "array":
        return pa.list_(pa.field("element", arrow_type(kind["elementType"])))
    return pa.struct([physical_field(field) for field in kind["fields"]])


def logical_arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of a Spark JSON type without column mapping, with the source's names of nested fields."""
    if isinstance(kind, str):
        return arrow_type(kind)
    if kind["type"] == "array":
        return pa.list_(pa.field("element", logical_arrow_type(kind["elementType"])))
    return pa.struct([pa.field(field["name"], logical_arrow_type(field["type"])) for field in kind["fields"]])


def physical_field(field: dict[str, Any]) -> pa.Field:
    """A field of the log's schema as Parquet files have it."""
    marks = {b"PARQUET:field_id": str(field["metadata"][ID]).encode()}
    return pa.field(field["metadata"][PHYSICAL_NAME], arrow_type(field["type"]), metadata=marks)


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """One top-level column of a Delta table.

    Attributes:
        name: Logical name, the source's.
        physical: Name in the files.
        type: Spark's JSON type.
        arrow: Its field in the files.
    """

    name: str
    physical: str
    type: Any
    arrow: pa.Field


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a Delta table at one version, in order."""

    columns: tuple[DeltaColumn, ...]

    @classmethod
    def of(cls, schema: dict[str, Any]) -> Layout:
        """The layout of a log's `schemaString`, parsed."""
        return cls(
            tuple(
                DeltaColumn(f["name"], f["metadata"][PHYSICAL_NAME], f["type"], physical_field(f))
                for f in schema["fields"]
            )
        )

    def __getitem__(self, name: str) -> DeltaColumn:
        return next(c for c in self.columns if c.name == name)

    def __contains__(self, name: object) -> bool:
        return any(c.name == name for c in self.columns)

    @property
    def physical(self) -> pa.Schema:
        """The Arrow schema of data files."""
        return pa.schema([c.arrow for c in self.columns])


class IdentityGiver:
    """Gives new columns identities and physical names, counting on from the table's highest."""

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest

    def field(self, name: str, kind: Any) -> dict[str, Any]:
        """A new field of the log's schema, nested ones included."""
        field = _field(name, self._mapped(kind))
        self.highest += 1
        field["metadata"] = {ID: self.highest, PHYSICAL_NAME: f"col-{uuid.uuid4()}"}
        return field

    def _mapped(self, kind: Any) -> Any:
        if isinstance(kind, str):
            return kind
        if kind["type"] == "array":
            return {**kind, "elementType": self._mapped(kind["elementType"])}
        return {**kind, "fields": [self.field(f["name"], f["type"]) for f in kind["fields"]]}


def same_type(left: Any, right: Any) -> bool:
    """Whether two Spark JSON types are one, column mapping aside."""
    if isinstance(left, str) or isinstance(right, str):
        return bool(left == right)
    if left["type"] != right["type"]:
        return False
    if left["type"] == "array":
        return same_type(left["elementType"], right["elementType"])
    pairs = list(_pairs(left, right))
    return len(left["fields"]) == len(right["fields"]) and all(
        a["name"] == b["name"] and same_type(a["type"], b["type"]) for a, b in pairs
    )


def _pairs(left: Any, right: Any) -> Iterator[tuple[Any, Any]]:
    return zip(left["fields"], right["fields"], strict=False)


def nesting(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type hold other values."""
    return bool(pa.types.is_nested(kind))
