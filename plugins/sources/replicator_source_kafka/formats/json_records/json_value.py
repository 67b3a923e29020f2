"""Reads single JSON values that Arrow's reader refuses: quoted NaN, maps, a few unusual records."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats that JSON has no numbers for, as Jackson writes them."""


class Digits(float):
    """A number with a point or an exponent, and its text: decimals are created from the text, not from the float."""

    text: str


def loads(text: bytes) -> Any:
    """The value of a JSON text; its numbers are `int` and `Digits`.

    Raises:
        ValueError: When the text is not JSON, or has a number that no float can hold.
    """
    return json.loads(text, parse_float=_finite)


def _finite(text: str) -> Digits:
    number = Digits(text)
    if math.isinf(number):
        raise ValueError("has a number beyond what a float can hold")
    number.text = text
    return number


def fit(value: Any, wire: pa.DataType, path: str = "") -> Any:  # noqa: PLR0911 - one return a kind of type
    """Convert a value of `loads` (or fastavro) to the form that `pyarrow.array` needs for the type `wire`.

    Raises:
        ValueError: When the value is not of the type; the message contains the path, not the value.
    """
    if value is None:
        return None
    if pa.types.is_map(wire):
        return [("", json.dumps(value, ensure_ascii=False, separators=(",", ":")))]
    if pa.types.is_struct(wire):
        _expect(isinstance(value, dict), path, "an object")
        return {f.name: fit(value.get(f.name), f.type, f"{path}.{f.name}") for f in wire}
    if pa.types.is_list(wire):
        _expect(isinstance(value, list), path, "an array")
        return [fit(v, wire.value_type, path) for v in value]
    if pa.types.is_floating(wire):
        if isinstance(value, str):
            _expect(value in NOT_FINITE, path, "a number")
            return NOT_FINITE[value]
        _expect(_is_number(value), path, "a number")
        return float(value)
    if pa.types.is_boolean(wire):
        _expect(isinstance(value, bool), path, "true or false")
        return value
    if pa.types.is_integer(wire):
        _expect(isinstance(value, int) and not isinstance(value, bool), path, "a whole number")
        _expect(-(1 << wire.bit_width - 1) <= value < 1 << wire.bit_width - 1, path, f"within {wire}")
        return value
    if pa.types.is_decimal(wire):
        _expect(_is_number(value), path, "a number")
        return Decimal(value.text if isinstance(value, Digits) else value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    _expect(isinstance(value, str), path, "a string")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _expect(holds: bool, path: str, what: str) -> None:
    if not holds:
        raise ValueError(f"has no value that is {what} at {path.lstrip('.') or 'its top'}")
