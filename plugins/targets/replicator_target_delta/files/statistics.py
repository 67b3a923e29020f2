"""Statistics of a data file, by which readers and our own pruning skip it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_PREFIX: Final = 32
_LAST_CHARACTER: Final = chr(0x10FFFF)


def file_statistics(columns: dict[str, pa.ChunkedArray], rows: int) -> str:
    """The `stats` of an `add` action: row count, and per column NULLs, smallest and largest value.

    A column whose bounds cannot be said exactly (NaN, infinity, nested or binary values) gets none: readers then do not
    skip by it.
    """
    lows: list[str] = []
    highs: list[str] = []
    nulls: dict[str, int] = {}
    for name, values in columns.items():
        if pa.types.is_nested(values.type):
            continue
        nulls[name] = values.null_count
        bounds = _bounds(values)
        if bounds is not None:
            lows.append(f"{json.dumps(name)}:{bounds[0]}")
            highs.append(f"{json.dumps(name)}:{bounds[1]}")
    return (
        f'{{"numRecords":{rows},"minValues":{{{",".join(lows)}}},"maxValues":{{{",".join(highs)}}},'
        f'"nullCount":{json.dumps(nulls)},"tightBounds":true}}'
    )


def _bounds(values: pa.ChunkedArray) -> tuple[str, str] | None:
    """Smallest and largest value as JSON text."""
    render = _renderer(values.type)
    if render is None or values.null_count == len(values):
        return None
    if pa.types.is_floating(values.type) and not pc.all(pc.is_finite(values)).as_py():
        return None
    found: dict[str, Any] = _raw_min_max(values)
    return render(found["min"], found["max"])


def _raw_min_max(values: pa.ChunkedArray) -> dict[str, Any]:
    if pa.types.is_timestamp(values.type):  # Python's datetime is slow and ends in year 9999; integers do not
        values = values.cast(pa.int64())
    bounds: dict[str, Any] = pc.min_max(values).as_py()
    return bounds


Renderer = Callable[[Any, Any], tuple[str, str] | None]


def _renderer(kind: pa.DataType) -> Renderer | None:  # noqa: PLR0911 - one line a type
    if pa.types.is_integer(kind):
        return lambda low, high: (str(low), str(high))
    if pa.types.is_floating(kind):
        return lambda low, high: (repr(low), repr(high))
    if pa.types.is_decimal(kind):
        return _decimals
    if pa.types.is_string(kind):
        return _texts
    if pa.types.is_date(kind):
        return _dates
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        return lambda low, high: _instants(low, high, zone)
    return None


def _decimals(low: Decimal, high: Decimal) -> tuple[str, str]:
    return f"{low:f}", f"{high:f}"


def _texts(low: str, high: str) -> tuple[str, str]:
    """Long texts are cut: a prefix sorts before the text; an upper bound ends in the highest character that exists."""
    top = high if len(high) <= _PREFIX else high[:_PREFIX] + _LAST_CHARACTER
    return json.dumps(low[:_PREFIX]), json.dumps(top)


def _dates(low: date, high: date) -> tuple[str, str]:
    return f'"{low.isoformat()}"', f'"{high.isoformat()}"'


def _instants(low: int, high: int, zone: str) -> tuple[str, str] | None:
    """Microseconds as milliseconds, rounded outwards."""
    top = -(-high // 1000)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        first, last = epoch + timedelta(milliseconds=low // 1000), epoch + timedelta(milliseconds=top)
    except OverflowError:
        return None
    return _millis(first, zone), _millis(last, zone)


def _millis(moment: datetime, zone: str) -> str:
    return f'"{moment.replace(tzinfo=None).isoformat(timespec="milliseconds")}{zone}"'


def parse_statistics(text: str | None) -> dict[str, Any]:
    """The `stats` of an `add` action; decimals and floats exact."""
    parsed: dict[str, Any] = json.loads(text, parse_float=Decimal) if text else {}
    return parsed
