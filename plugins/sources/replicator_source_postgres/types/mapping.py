"""Maps Postgres types to standard types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INSTANT,
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
)

_NUMERIC = 1700
_BUILT_IN: dict[int, DataType] = {
    16: BOOL,
    17: BINARY,
    20: INT64,
    21: INT16,
    23: INT32,
    26: INT64,  # oid: unsigned 32 bits
    114: JSON,
    700: FLOAT32,
    701: FLOAT64,
    1082: DATE,
    1083: TIME,
    1114: TIMESTAMP,
    1184: INSTANT,
    2950: UUID,
    3802: JSON,
}
"""By object identifier, which never changes for a built-in type. Every other type is transferred as its text."""


@dataclass(frozen=True, slots=True)
class PgType:
    """The properties of a type on which its values depend.

    Attributes:
        oid: Its object identifier.
        base: For a domain, its base type; else 0.
        base_typmod: For a domain, the modifier of that type.
        element: For an array type, the type of its elements; else 0.
        delimiter: What its values are separated by inside an array.
    """

    oid: int
    base: int = 0
    base_typmod: int = -1
    element: int = 0
    delimiter: str = ","


def standard_type(oid: int, typmod: int, lookup: Callable[[int], PgType]) -> DataType:
    """The standard type of a column of type `oid` with modifier `typmod`.

    Domains are their base type. An array of a type whose delimiter is not a comma (among the built-in ones only box)
    is transferred as its text, and so is an array of arrays (which a domain makes possible).
    """
    kind = lookup(oid)
    if kind.base:
        return standard_type(kind.base, kind.base_typmod if typmod < 0 else typmod, lookup)
    if kind.element:
        element = standard_type(kind.element, typmod, lookup)
        is_readable = lookup(kind.element).delimiter == "," and not isinstance(element, Array)
        return Array(element) if is_readable else STRING
    if oid == _NUMERIC:
        return numeric_type(typmod)
    return _BUILT_IN.get(oid, STRING)


def numeric_type(typmod: int) -> DataType:
    """decimal(p,s) where it holds every value of numeric(p,s) exactly, else the text.

    A scale beyond the precision (0.00001234) needs scale digits, a negative one (12300) needs its zeros.
    """
    if typmod < 4:
        return STRING
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, (typmod - 4) & 0x7FF
    if scale >= 1024:
        scale -= 2048
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return Decimal(precision, scale) if precision <= 38 else STRING
