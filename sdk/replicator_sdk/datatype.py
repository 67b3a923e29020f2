"""The standard type system every source maps to and every target maps from.

A type is immutable, has one Arrow type (`arrow`) in which its values travel, and a short text form (`str(t)`,
`parse_type(text)`) used in state files and tables of types. The source's own type name stays beside it, on `Column`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DataType:
    """A standard type without parameters: its name and the Arrow type its values travel in."""

    name: str
    arrow: pa.DataType

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        """Types travel to Spark's executors by their text: a subclass's own slots would not be pickled."""
        return (parse_type, (self.name,))


BOOL: Final = DataType("bool", pa.bool_())
INT8: Final = DataType("int8", pa.int8())
INT16: Final = DataType("int16", pa.int16())
INT32: Final = DataType("int32", pa.int32())
INT64: Final = DataType("int64", pa.int64())
FLOAT32: Final = DataType("float32", pa.float32())
FLOAT64: Final = DataType("float64", pa.float64())
STRING: Final = DataType("string", pa.string())
BINARY: Final = DataType("binary", pa.binary())
DATE: Final = DataType("date", pa.date32())
"""Proleptic Gregorian days, 0001-01-01 to 9999-12-31."""
TIME: Final = DataType("time", pa.time64("us"))
"""Time of day without zone, microseconds, 00:00:00 to 23:59:59.999999."""
TIMESTAMP: Final = DataType("timestamp", pa.timestamp("us"))
"""Wall-clock date and time without zone (naive), microseconds, years 0001 to 9999."""
INSTANT: Final = DataType("instant", pa.timestamp("us", tz="UTC"))
"""A point in time in UTC, microseconds, years 0001 to 9999."""
JSON: Final = DataType("json", pa.string())
"""JSON text as the source writes it."""
UUID: Final = DataType("uuid", pa.string())
"""UUID in its 36-character lower-case form."""

_SIMPLE: Final = {
    t.name: t
    for t in (
        BOOL,
        INT8,
        INT16,
        INT32,
        INT64,
        FLOAT32,
        FLOAT64,
        STRING,
        BINARY,
        DATE,
        TIME,
        TIMESTAMP,
        INSTANT,
        JSON,
        UUID,
    )
}


class Decimal(DataType):
    """Exact decimal with `precision` digits (1 to 38), `scale` of them after the point (0 to precision)."""

    __slots__ = ("precision", "scale")

    precision: int
    scale: int

    def __init__(self, precision: int, scale: int) -> None:
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise ValueError(f"decimal({precision},{scale}) is outside the standard type's limits")
        DataType.__init__(self, f"decimal({precision},{scale})", pa.decimal128(precision, scale))
        object.__setattr__(self, "precision", precision)
        object.__setattr__(self, "scale", scale)


class Array(DataType):
    """A list of values of one type; elements may be NULL."""

    __slots__ = ("element",)

    element: DataType

    def __init__(self, element: DataType) -> None:
        DataType.__init__(self, f"array<{element}>", pa.list_(pa.field("element", element.arrow)))
        object.__setattr__(self, "element", element)


class Record(DataType):
    """Named fields in order; names are JSON strings in the text form, so any name is allowed."""

    __slots__ = ("fields",)

    fields: tuple[tuple[str, DataType], ...]

    def __init__(self, fields: tuple[tuple[str, DataType], ...]) -> None:
        text = ",".join(f"{json.dumps(name)}:{kind}" for name, kind in fields)
        DataType.__init__(self, f"record<{text}>", pa.struct([pa.field(name, kind.arrow) for name, kind in fields]))
        object.__setattr__(self, "fields", fields)


def parse_type(text: str) -> DataType:
    """The type whose text form is `text`; the inverse of `str`.

    Raises:
        ValueError: When the text is no standard type.
    """
    kind, rest = _parse(text)
    if rest:
        raise ValueError(f"{text!r} is not a standard type")
    return kind


def _parse(text: str) -> tuple[DataType, str]:
    """Parse one type at the start of `text`; returns it and what is left."""
    if text.startswith("array<"):
        element, rest = _parse(text[len("array<") :])
        return Array(element), _after(rest, ">")
    if text.startswith("record<"):
        return _parse_record(text[len("record<") :])
    if text.startswith("decimal("):
        inside, _, rest = text[len("decimal(") :].partition(")")
        precision, _, scale = inside.partition(",")
        return Decimal(int(precision), int(scale)), rest
    name = text[: min((text.index(end) for end in ",>" if end in text), default=len(text))]
    if name not in _SIMPLE:
        raise ValueError(f"{text!r} is not a standard type")
    return _SIMPLE[name], text[len(name) :]


def _parse_record(text: str) -> tuple[DataType, str]:
    fields: list[tuple[str, DataType]] = []
    while not text.startswith(">"):
        decoded: tuple[Any, int] = json.JSONDecoder().raw_decode(text)
        kind, text = _parse(_after(text[decoded[1] :], ":"))
        fields.append((str(decoded[0]), kind))
        text = text.removeprefix(",")
    return Record(tuple(fields)), text[1:]


def _after(text: str, mark: str) -> str:
    if not text.startswith(mark):
        raise ValueError(f"expected {mark!r} at {text!r}")
    return text[len(mark) :]
