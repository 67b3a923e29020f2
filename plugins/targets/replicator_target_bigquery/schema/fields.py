"""The standard types as BigQuery's, and back.

| standard | BigQuery |
|---|---|
| int8 … int64 | INT64 |
| float32, float64 | FLOAT64 |
| decimal(p,s) | NUMERIC(p,s) up to 29 digits before and 9 after the point, else BIGNUMERIC(p,s) |
| timestamp, instant | DATETIME, TIMESTAMP |
| json | STRING, or JSON, which would not keep the text |
| uuid | STRING |
| array<T> | ARRAY<T>, or STRUCT<list ARRAY<STRUCT<element T>>>: an ARRAY knows neither NULL nor NULL elements |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

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
from replicator_target_bigquery.schema.names import column_name

_SIMPLE: Final[dict[DataType, str]] = {
    **dict.fromkeys((INT8, INT16, INT32, INT64), "INT64"),
    **dict.fromkeys((FLOAT32, FLOAT64), "FLOAT64"),
    **dict.fromkeys((STRING, JSON, UUID), "STRING"),
    BOOL: "BOOL",
    BINARY: "BYTES",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "DATETIME",
    INSTANT: "TIMESTAMP",
}
_BACK: Final[dict[str, DataType]] = {
    "INT64": INT64,
    "FLOAT64": FLOAT64,
    "STRING": STRING,
    "BOOL": BOOL,
    "BYTES": BINARY,
    "DATE": DATE,
    "TIME": TIME,
    "DATETIME": TIMESTAMP,
    "TIMESTAMP": INSTANT,
    "JSON": JSON,
}
# The API answers with the names of the old dialect.
_OLD_NAMES: Final = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}
_CLUSTERED: Final = frozenset({"INT64", "STRING", "BOOL", "DATE", "DATETIME", "TIMESTAMP", "NUMERIC", "BIGNUMERIC"})
_NUMERIC_SCALE: Final = 9
_NUMERIC_WHOLE: Final = 29
LIST: Final = "list"
ELEMENT: Final = "element"


@dataclass(frozen=True, slots=True)
class Forms:
    """Which of two forms arrays and JSON get.

    Attributes:
        native_arrays: Whether arrays are ARRAY, not a STRUCT that wraps one.
        json_type: Whether JSON is JSON, not STRING.
    """

    native_arrays: bool = False
    json_type: bool = False


EXACT: Final = Forms()
"""The forms that hold every value as the source has it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field inside one, as BigQuery has it."""

    name: str
    type: str
    mode: str = "NULLABLE"
    precision: int | None = None
    scale: int | None = None
    fields: tuple[Field, ...] = field(default=())

    @property
    def sql(self) -> str:
        """The type as SQL writes it."""
        if self.type == "STRUCT":
            text = f"STRUCT<{', '.join(f'`{inner.name}` {inner.sql}' for inner in self.fields)}>"
        elif self.precision is not None:
            text = f"{self.type}({self.precision}, {self.scale or 0})"
        else:
            text = self.type
        return f"ARRAY<{text}>" if self.mode == "REPEATED" else text

    @property
    def clusters(self) -> bool:
        """Whether tables can be clustered by it."""
        return self.type in _CLUSTERED and self.mode != "REPEATED"

    def holds(self, other: Field) -> bool:
        """Whether every value of `other` is one of this type; names inside count, whether NULL is allowed does not."""
        repeated = (self.mode == "REPEATED") == (other.mode == "REPEATED")
        inside = len(self.fields) == len(other.fields) and all(
            a.name.lower() == b.name.lower() and a.holds(b) for a, b in zip(self.fields, other.fields, strict=False)
        )
        digits = self.precision is None or (self.precision, self.scale) == (other.precision, other.scale)
        return self.type == other.type and repeated and inside and digits

    def to_api(self) -> dict[str, Any]:
        """BigQuery's JSON form."""
        made: dict[str, Any] = {"name": self.name, "type": self.type, "mode": self.mode}
        if self.precision is not None:
            made |= {"precision": str(self.precision), "scale": str(self.scale or 0)}
        if self.fields:
            made["fields"] = [inner.to_api() for inner in self.fields]
        return made

    @classmethod
    def from_api(cls, value: Mapping[str, Any]) -> Field:
        """The inverse of `to_api`, for any table's columns."""
        precision, scale = value.get("precision"), value.get("scale")
        return cls(
            value["name"],
            _OLD_NAMES.get(value["type"], value["type"]),
            value.get("mode") or "NULLABLE",
            None if precision is None else int(precision),
            int(scale or 0) if precision is not None else None,
            tuple(cls.from_api(inner) for inner in value.get("fields", ())),
        )


def field_of(
    name: str, kind: DataType, *, mode: str = "NULLABLE", forms: Forms = EXACT, like: Field | None = None
) -> Field:
    """The column `name` for values of a standard type.

    Args:
        name: Its name.
        kind: The type of its values.
        mode: NULLABLE or REQUIRED; a native array is neither.
        forms: The forms of arrays and JSON.
        like: The column that exists: its forms win over `forms`.
    """
    if isinstance(kind, Decimal):
        fits = kind.scale <= _NUMERIC_SCALE and kind.precision - kind.scale <= _NUMERIC_WHOLE
        return Field(name, "NUMERIC" if fits else "BIGNUMERIC", mode, kind.precision, kind.scale)
    if isinstance(kind, Array):
        if not isinstance(kind.element, Array) and _is_native(forms, like):
            once = None if like is None else replace(like, mode="NULLABLE")
            return replace(field_of(name, kind.element, forms=_inside(forms), like=once), mode="REPEATED")
        element = field_of(ELEMENT, kind.element)
        return Field(name, "STRUCT", mode, fields=(Field(LIST, "STRUCT", "REPEATED", fields=(element,)),))
    if isinstance(kind, Record):
        there = {f.name.lower(): f for f in like.fields} if like is not None else {}
        names = ((column_name(n), k) for n, k in kind.fields)
        inner = (field_of(n, k, forms=_inside(forms), like=there.get(n.lower())) for n, k in names)
        return Field(name, "STRUCT", mode, fields=tuple(inner))
    if kind == JSON:
        is_json = like.type == "JSON" if like is not None and like.type in {"JSON", "STRING"} else forms.json_type
        return Field(name, "JSON" if is_json else "STRING", mode)
    return Field(name, _SIMPLE[kind], mode)


def is_wrapped(found: Field) -> bool:
    """Whether it has the form of a wrapped array."""
    if found.type != "STRUCT" or found.mode == "REPEATED" or len(found.fields) != 1:
        return False
    (inner,) = found.fields
    return inner.name == LIST and inner.mode == "REPEATED" and [f.name for f in inner.fields] == [ELEMENT]


def _is_native(forms: Forms, like: Field | None) -> bool:
    if like is not None and (like.mode == "REPEATED" or is_wrapped(like)):
        return like.mode == "REPEATED"
    return forms.native_arrays


def _inside(forms: Forms) -> Forms:
    """The forms inside a column: JSON is a type of whole columns only."""
    return replace(forms, json_type=False)


def standard_type(found: Field) -> DataType | None:
    """The standard type a column's values travel in; None for what only BigQuery has (GEOGRAPHY, RANGE, INTERVAL)."""
    if found.mode == "REPEATED":
        element = standard_type(Field(found.name, found.type, "NULLABLE", found.precision, found.scale, found.fields))
        return None if element is None else Array(element)
    if found.type in {"NUMERIC", "BIGNUMERIC"}:
        widest = (38, _NUMERIC_SCALE) if found.type == "NUMERIC" else None
        digits = (found.precision, found.scale or 0) if found.precision is not None else widest
        return STRING if digits is None or digits[0] > 38 else Decimal(*digits)
    if found.type == "STRUCT":
        return _standard_struct(found.fields)
    return _BACK.get(found.type)


def _standard_struct(fields: Sequence[Field]) -> DataType | None:
    if is_wrapped(Field("", "STRUCT", fields=tuple(fields))):
        element = standard_type(fields[0].fields[0])
        return None if element is None else Array(element)
    inner = [(f.name, standard_type(f)) for f in fields]
    known = tuple((name, kind) for name, kind in inner if kind is not None)
    return Record(known) if len(known) == len(inner) else None
