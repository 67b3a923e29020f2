"""Converts SQLite values to Arrow, a column at a time.

SQLite allows any value in any column. A column whose values all have the expected Python type is converted at once; any
other column is converted value by value, and values that do not fit follow the policy.
"""

from __future__ import annotations

import decimal
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk import Column, OutOfRange, Refusal, TableSchema
from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import DataType, Decimal
from replicator_sdk.errors import DataError

_DIGITS: Final = decimal.Context(prec=76)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.(\d+))?)?(?:Z|[+-]\d\d:\d\d)?)?")
_TIME: Final = re.compile(r"\d\d:\d\d(?::\d\d(?:\.(\d+))?)?")
_INT64: Final = (-(2**63), 2**63 - 1)


class TypeMismatchError(ValueError):
    """A value is not of the column's type; `nearest` is the nearest value that is, or None."""

    def __init__(self, nearest: Any = None) -> None:
        super().__init__("value does not fit")
        self.nearest = nearest


@dataclass
class Decoder:
    """Converts the columns of one table under one policy; counts what it replaced.

    Attributes:
        schema: The table.
        out_of_range: What happens to values that do not fit. A key's value always fails: two rows must not become one.
        replaced: How many values were replaced so far, by kind of value.
    """

    schema: TableSchema
    out_of_range: OutOfRange
    replaced: Counter[str] = field(default_factory=Counter)

    def column(self, column: Column, values: Sequence[Any]) -> pa.Array:
        """`values` in the column's Arrow type.

        Raises:
            DataError: RPL-3510 when a value does not fit and the policy is `fail`.
        """
        name = "decimal" if isinstance(column.type, Decimal) else column.type.name
        kinds, convert = _COLUMN_CONVERTERS.get(name, (frozenset(), _plain))
        if set(map(type, values)) <= kinds | {type(None)}:
            try:
                return convert(values, column.type.arrow)
            except (pa.ArrowInvalid, UnicodeEncodeError):
                pass  # some value does not fit: convert one by one
        return pa.array([self._value(column, value) for value in values], column.type.arrow)

    def struct(self, columns: Sequence[Sequence[Any]], length: int) -> pa.StructArray:
        """Rows of the table from the values of its columns in schema order."""
        arrays = [self.column(c, values) for c, values in zip(self.schema.columns, columns, strict=True)]
        if not arrays:
            return pa.array([{}] * length, self.schema.struct)
        return pa.StructArray.from_arrays(arrays, fields=list(self.schema.struct))

    def marked_column(self, column: Column, values: Sequence[Any]) -> tuple[pa.Array, Refusal | None]:
        """As `column`; values that do not fit are NULL and marked where the policy is `fail`, but for a key's.

        Raises:
            DataError: RPL-3510 when a key's value does not fit.
        """
        if self.out_of_range is not OutOfRange.FAIL or column.name in self.schema.primary_key:
            return self.column(column, values), None
        try:
            return self.column(column, values), None
        except DataError as error:
            first = error
        fitting = Decoder(self.schema, OutOfRange.NULL).column(column, values)
        given = pa.array([value is not None for value in values])
        return fitting, Refusal(pc.and_(pc.is_null(fitting), given), first.code, first.message)

    def marked_struct(
        self, columns: Sequence[Sequence[Any]], length: int
    ) -> tuple[pa.StructArray, Mapping[str, Refusal]]:
        """As `struct`, with what `marked_column` marks."""
        found = [self.marked_column(c, values) for c, values in zip(self.schema.columns, columns, strict=True)]
        if not found:
            return pa.array([{}] * length, self.schema.struct), {}
        rows = pa.StructArray.from_arrays([array for array, _ in found], fields=list(self.schema.struct))
        marked = zip(self.schema.names, found, strict=True)
        return rows, {name: refusal for name, (_, refusal) in marked if refusal is not None}

    def _value(self, column: Column, value: Any) -> Any:
        if value is None:
            return None
        try:
            return _exact(column.type, value)
        except TypeMismatchError as error:
            nearest = error.nearest
        rule = self._policy(column).note(f"a value that is no {column.source_type or column.type}", 1)
        return nearest if rule is OutOfRange.CLAMP else None

    def _policy(self, column: Column) -> OutOfRangePolicy:
        rule = OutOfRange.FAIL if column.name in self.schema.primary_key else self.out_of_range
        return OutOfRangePolicy(rule, str(self.schema.table), column.name, "RPL-3510", self.replaced)


def _plain(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return pa.array(values, arrow)


def _parsed(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    return pa.array(values, pa.string()).cast(arrow)


def _numbers(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """A REAL counts as its 15-digit decimal, as in `_decimal`; Arrow refuses what does not fit, if it has no exponent."""
    texts = [None if v is None else f"{v:.15g}" if isinstance(v, float) else str(v) for v in values]
    if any("e" in text for text in texts if text):
        raise pa.ArrowInvalid("Arrow takes a very small number for zero")
    return pa.array(texts, pa.string()).cast(arrow)


def _flags(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    if not set(values) <= {0, 1, None}:
        raise pa.ArrowInvalid("not a flag")
    return pa.array(values, pa.int64()).cast(arrow)


_COLUMN_CONVERTERS: Final[dict[str, tuple[frozenset[type], Callable[[Sequence[Any], pa.DataType], pa.Array]]]] = {
    "bool": (frozenset({int}), _flags),
    "int64": (frozenset({int}), _plain),
    "float64": (frozenset({int, float}), _plain),
    "string": (frozenset({str}), _plain),
    "json": (frozenset({str}), _plain),
    "binary": (frozenset({bytes}), _plain),
    "decimal": (frozenset({int, float}), _numbers),
    "date": (frozenset({str}), _parsed),
    "timestamp": (frozenset({str}), _parsed),
}
"""Standard type → the expected Python types, and the function that converts a column of these at once."""


def _exact(kind: DataType, value: Any) -> Any:
    """`value` as a value of `kind`, exactly.

    Raises:
        TypeMismatchError: When it is not one.
    """
    return _decimal(kind, value) if isinstance(kind, Decimal) else _VALUE_CONVERTERS[kind.name](value)


def _bool(value: Any) -> bool:
    if value not in (0, 1):
        raise TypeMismatchError(value != 0 if isinstance(value, int | float) else None)
    return bool(value)


def _int64(value: Any) -> int:
    if isinstance(value, int):
        return value
    if not isinstance(value, float):
        raise TypeMismatchError
    if value.is_integer() and _INT64[0] <= value < 2.0**63:
        return int(value)
    raise TypeMismatchError(
        int(max(_INT64[0], min(_INT64[1], round(value) if abs(value) < 2.0**63 else _bound(value))))
    )


def _bound(value: float) -> int:
    return _INT64[value > 0]


def _float64(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeMismatchError
    if float(value) != value:
        raise TypeMismatchError(float(value))
    return float(value)


def _string(value: Any) -> str:
    if isinstance(value, bytes):
        raise TypeMismatchError
    text = value if isinstance(value, str) else repr(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TypeMismatchError(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")) from None
    return text


def _binary(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeMismatchError
    return value


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        moment = _timestamp(value)
        if moment.time() != time.min:
            raise TypeMismatchError(moment.date()) from None
        return moment.date()


def _timestamp(value: Any) -> datetime:
    """Wall-clock time; text with a zone is converted to UTC, as SQLite's own date functions do."""
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    try:
        moment = datetime.fromisoformat(value) if match else None
        if moment is not None and moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        moment = None
    if match is None or moment is None:
        raise TypeMismatchError
    if (match[1] or "")[6:].strip("0"):
        raise TypeMismatchError(moment)
    return moment


def _time(value: Any) -> time:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    try:
        moment = time.fromisoformat(value) if match else None
    except ValueError:
        moment = None
    if match is None or moment is None:
        raise TypeMismatchError
    if (match[1] or "")[6:].strip("0"):
        raise TypeMismatchError(moment)
    return moment


def _uuid(value: Any) -> str:
    try:
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise TypeMismatchError from None


def _decimal(kind: Decimal, value: Any) -> decimal.Decimal:
    """A REAL counts as its decimal of 15 digits: SQLite has no other way to store `12.34`."""
    if isinstance(value, bytes):
        raise TypeMismatchError
    try:
        number = decimal.Decimal(f"{value:.15g}" if isinstance(value, float) else value)
    except decimal.InvalidOperation:
        raise TypeMismatchError from None
    if number.is_nan():
        raise TypeMismatchError
    largest = decimal.Decimal(10**kind.precision - 1).scaleb(-kind.scale, _DIGITS)
    if abs(number) > largest:
        raise TypeMismatchError(largest.copy_sign(number))
    fitted = number.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    if fitted != number:
        raise TypeMismatchError(min(abs(fitted), largest).copy_sign(number))
    return fitted


_VALUE_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _bool,
    "int64": _int64,
    "float64": _float64,
    "string": _string,
    "json": _string,
    "binary": _binary,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "uuid": _uuid,
}
