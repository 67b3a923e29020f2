"""Records as Debezium's Postgres connector writes them with Connect's JsonConverter and schemas enabled."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context
from decimal import Decimal as Number
from typing import Any, Final

from replicator_sdk import TableSchema
from replicator_sdk.datatype import Array, DataType, Decimal
from replicator_sdk.schema import Column

UNAVAILABLE: Final = "__debezium_unavailable_value"
_EPOCH: Final = datetime(1970, 1, 1)
_EXACT: Final = Context(prec=50)
_MICROSECOND: Final = timedelta(microseconds=1)

_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "bool": ("boolean", ""),
    "int8": ("int8", ""),
    "int16": ("int16", ""),
    "int32": ("int32", ""),
    "int64": ("int64", ""),
    "float32": ("float", ""),
    "float64": ("double", ""),
    "string": ("string", ""),
    "binary": ("bytes", ""),
    "date": ("int32", "io.debezium.time.Date"),
    "time": ("int64", "io.debezium.time.MicroTime"),
    "timestamp": ("int64", "io.debezium.time.MicroTimestamp"),
    "instant": ("string", "io.debezium.time.ZonedTimestamp"),
    "json": ("string", "io.debezium.data.Json"),
    "uuid": ("string", "io.debezium.data.Uuid"),
}


def field_schema(kind: DataType, *, optional: bool) -> dict[str, Any]:
    """The Connect schema of a value."""
    if isinstance(kind, Array):
        return {"type": "array", "items": field_schema(kind.element, optional=True), "optional": optional}
    if isinstance(kind, Decimal):
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        name = "org.apache.kafka.connect.data.Decimal"
        return {"type": "bytes", "name": name, "version": 1, "parameters": parameters, "optional": optional}
    base, name = _TYPES[kind.name]
    return {"type": base, "optional": optional, **({"name": name, "version": 1} if name else {})}


def struct(fields: Mapping[str, dict[str, Any]], name: str, *, optional: bool = False) -> dict[str, Any]:
    """The Connect schema of a struct."""
    named = [{**schema, "field": field} for field, schema in fields.items()]
    return {"type": "struct", "fields": named, "optional": optional, "name": name}


def _row(columns: tuple[Column, ...], name: str, *, optional: bool = False) -> dict[str, Any]:
    return struct({c.name: field_schema(c.type, optional=c.nullable) for c in columns}, name, optional=optional)


def _source() -> dict[str, Any]:
    texts = {
        name: {"type": "string", "optional": False}
        for name in ("version", "connector", "name", "db", "schema", "table")
    }
    numbers = {name: {"type": "int64", "optional": False} for name in ("ts_ms", "ts_us")}
    return struct({**texts, **numbers}, "io.debezium.connector.postgresql.Source")


def key_of(schema: TableSchema, row: Mapping[str, Any]) -> bytes | None:
    """A record's key; None for a table without one."""
    if not schema.primary_key:
        return None
    columns = schema.key_columns()
    payload = {c.name: encode(c.type, row[c.name]) for c in columns}
    return _text({"schema": _row(columns, "shop.Key"), "payload": payload})


def envelope(
    schema: TableSchema,
    op: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    *,
    microseconds: int = 1_700_000_000_000_000,
) -> bytes:
    """A record's value. Columns a row lacks are NULL before a change, and unavailable after one."""
    row = _row(schema.columns, "shop.Value", optional=True)
    parts = {"before": row, "after": row, "source": _source(), "op": {"type": "string", "optional": False}}
    table = schema.table
    source = {
        "version": "3.5.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "db": table.database,
        "schema": table.schema,
        "table": table.table,
        "ts_ms": microseconds // 1000,
        "ts_us": microseconds,
    }
    payload = {
        "before": None if before is None else {c.name: encode(c.type, before.get(c.name)) for c in schema.columns},
        "after": None
        if after is None
        else {c.name: encode(c.type, after[c.name]) if c.name in after else UNAVAILABLE for c in schema.columns},
        "source": source,
        "op": op,
    }
    return _text({"schema": struct(parts, "shop.Envelope"), "payload": payload})


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode(kind: DataType, value: Any) -> Any:
    """A value as JsonConverter writes it."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [encode(kind.element, v) for v in value]
    if isinstance(kind, Decimal):
        unscaled = int(_EXACT.scaleb(Number(value), kind.scale))
        size = (unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()) // 8 + 1
        return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    encoder = _ENCODERS.get(kind.name)
    return value if encoder is None else encoder(value)


def _real(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _microseconds(value: time) -> int:
    return (datetime.combine(date(1970, 1, 1), value) - _EPOCH) // _MICROSECOND


_ENCODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "float32": _real,
    "float64": _real,
    "binary": lambda value: base64.b64encode(value).decode(),
    "date": lambda value: (value - date(1970, 1, 1)).days,
    "time": _microseconds,
    "timestamp": lambda value: (value - _EPOCH) // _MICROSECOND,
    "instant": lambda value: value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
}
