"""Values of the standard types: read from JSON, and compared the way sources and targets hold them equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any, Final

import numpy as np

from replicator_sdk.datatype import Array, DataType, Decimal, Record
from replicator_sdk.schema import TableSchema

Row = dict[str, Any]


def from_json(kind: DataType, value: Any) -> Any:
    """A value of `kind` from its JSON form.

    Numbers, texts and booleans are themselves; decimals, dates, times and timestamps are text; binary is
    hexadecimal text; `"NaN"`, `"Infinity"` and `"-Infinity"` are floats.
    """
    if value is None:
        return None
    if isinstance(kind, Array):
        return [from_json(kind.element, v) for v in value]
    if isinstance(kind, Record):
        return {name: from_json(field, value.get(name)) for name, field in kind.fields}
    parse = Number if isinstance(kind, Decimal) else _PARSERS.get(kind.name)
    return value if parse is None else parse(value)


def converted(kind: DataType, value: Any) -> Any:
    """A value of another type as a value of `kind`, as far as databases agree: numbers as text, and as wider numbers."""
    if value is None or isinstance(value, str):
        return value
    if kind.name == "string":
        return str(value)
    if isinstance(kind, Decimal):
        return Number(value)
    return float(value) if kind.name in ("float32", "float64") else value


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "float32": float,
    "float64": float,
    "binary": bytes.fromhex,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "instant": _instant,
}


def comparable(kind: DataType, value: Any) -> Any:
    """A hashable form of `value`, equal exactly when two values of `kind` are the same value.

    NULL equals NULL and NaN equals NaN; both zeros are one; decimals compare by number, instants by moment.
    """
    if value is None:
        return None
    if isinstance(kind, Array):
        return tuple(comparable(kind.element, v) for v in value)
    if isinstance(kind, Record):
        return tuple(comparable(field, value[name]) for name, field in kind.fields)
    normal = _number if isinstance(kind, Decimal) else _NORMAL.get(kind.name)
    return value if normal is None else normal(value)


def _number(value: Any) -> Number:
    return Number(value).normalize()


def _real(value: Any) -> float | str:
    return "NaN" if math.isnan(value) else float(value) + 0.0


def _single(value: Any) -> float | str:
    """Clients print the shortest decimal that is the same single-precision number; that is read as another double."""
    return _real(float(np.float32(value)))


def _moment(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_NORMAL: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool,
    "float32": _single,
    "float64": _real,
    "instant": _moment,
}


def comparable_row(schema: TableSchema, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A hashable form of a row; columns it lacks count as NULL, columns beyond the schema are left out."""
    return tuple(comparable(c.type, row.get(c.name)) for c in schema.columns)


def comparable_key(schema: TableSchema, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A hashable form of what identifies a row: its key, or the whole row where there is none."""
    columns = schema.key_columns() or schema.columns
    return tuple(comparable(c.type, row.get(c.name)) for c in columns)


def multiset(schema: TableSchema, rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    """How often each row occurs."""
    return Counter(comparable_row(schema, row) for row in rows)


def difference(schema: TableSchema, expected: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]) -> str:
    """The difference between two contents of a table, in words; empty when there is none."""
    wanted, there = multiset(schema, expected), multiset(schema, found)
    lines = [f"missing {count} × {row}" for row, count in (wanted - there).items()]
    lines += [f"too many {count} × {row}" for row, count in (there - wanted).items()]
    if not lines:
        return ""
    return f"{schema.table} with columns {schema.names}:\n  " + "\n  ".join(sorted(lines)[:20])
