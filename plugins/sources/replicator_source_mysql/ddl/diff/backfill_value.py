"""The value that existing rows get in a column that is added, in the column's standard type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from replicator_sdk.datatype import BINARY, BOOL, DATE, FLOAT32, FLOAT64, INSTANT, JSON, STRING, TIMESTAMP, UUID, Array
from replicator_sdk.datatype import Decimal as DecimalType
from replicator_sdk.schema import Column
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.column_type import ColumnType, parse_column_type

_FRACTIONAL = {"datetime", "timestamp", "time"}
_IMPLICIT = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "integer", "bigint", "float", "double", "year"), "0"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "set"), ""),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "0x"),
    **dict.fromkeys(("datetime", "timestamp"), "0000-00-00 00:00:00"),
    "date": "0000-00-00",
    "time": "00:00:00",
    "bit": "b'0'",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "inet4": "0.0.0.0",  # noqa: S104 - a value of data
    "inet6": "::",
    "json": "null",
}


class NotKnownError(Exception):
    """The value is not known; rows have to be read."""


def value_of_older_rows(definition: ColumnDefinition, column: Column, zero_dates: str = "null") -> Any:
    """The value that existing rows get in a column that is added; None is NULL.

    Args:
        definition: The column at the source.
        column: The same in its schema.
        zero_dates: The source's `zeroDates`.

    Raises:
        NotKnownError: When it is computed, numbered or generated, or has no value of the standard type.
    """
    if definition.is_generated or definition.has_expression_default:
        raise NotKnownError
    kind = parse_column_type(definition.type)
    if definition.default is not None:
        text = definition.default
    elif definition.nullable:
        return None
    else:
        text = _implicit(kind)
    try:
        return _value(text, kind, column, zero_dates)
    except (ValueError, ArithmeticError) as err:
        raise NotKnownError from err


def _implicit(kind: ColumnType) -> str:
    """MySQL's own value of a NOT NULL column without a default."""
    if kind.name == "enum":
        return kind.members[0]
    if kind.name == "decimal":
        return f"{Decimal(0).scaleb(-kind.parameter(1, 0)):f}"
    text = _IMPLICIT.get(kind.name)
    if text is None:
        raise NotKnownError
    return text + _fraction(kind) if kind.name in _FRACTIONAL else text


def _fraction(kind: ColumnType) -> str:
    digits = kind.parameter(0, 0)
    return "." + "0" * digits if digits else ""


def _value(text: str, kind: ColumnType, column: Column, zero_dates: str) -> Any:
    if isinstance(column.type, Array):
        raise NotKnownError
    if column.type in {BOOL, BINARY}:
        return _bits(text, kind, column) if kind.name == "bit" else _bytes(text, kind)
    if column.type in {DATE, TIMESTAMP, INSTANT}:
        return _moment(text, column, zero_dates)
    if column.type in {STRING, JSON, UUID}:
        return text
    if column.type in {FLOAT32, FLOAT64}:
        return float(text)
    return Decimal(text) if isinstance(column.type, DecimalType) else int(text)


def _bits(text: str, kind: ColumnType, column: Column) -> bool | bytes:
    number = int(text.removeprefix("b").strip("'") or "0", 2)
    return bool(number) if column.type == BOOL else number.to_bytes(-(-kind.parameter(0, 1) // 8), "big")


def _bytes(text: str, kind: ColumnType) -> bytes:
    if not text.startswith("0x"):
        raise NotKnownError
    raw = bytes.fromhex(text[2:])
    return raw.ljust(kind.parameter(0, 1), b"\0") if kind.name == "binary" else raw


def _moment(text: str, column: Column, zero_dates: str) -> date | datetime | None:
    """A day or time; a zero or partial one is NULL, or an error when the rows are read."""
    if _is_partial(text):
        if zero_dates != "null":
            raise NotKnownError
        return None
    if column.type == DATE:
        return date.fromisoformat(text[:10])
    whole, _, fraction = text.partition(".")
    moment = datetime.fromisoformat(whole).replace(microsecond=int(fraction.ljust(6, "0") or "0"))
    return moment.replace(tzinfo=UTC) if column.type == INSTANT else moment


def _is_partial(text: str) -> bool:
    return "00" in (text[5:7], text[8:10]) or text.startswith("0000")
