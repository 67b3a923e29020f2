"""Values as SQLite keeps them: its own types where it has them, text elsewhere."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

Row = dict[str, Any]


def stored(value: Any) -> Any:
    """A value for a column."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and value != value:
        return "NaN"  # SQLite would make it NULL
    return value.isoformat() if isinstance(value, date | time | datetime) else value


def identity(row: Row, names: tuple[str, ...]) -> str:
    """Equal for rows that are the same row: with equal keys, or equal as a whole where there is no key."""
    return json.dumps([_plain(row[name]) for name in names])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, Decimal):
        return ["decimal", str(value.normalize()) if value else "0"]
    if isinstance(value, float):
        return ["float", repr(value + 0.0 if value else 0.0)]  # both zeros are one value
    return [type(value).__name__, stored(value)]
