"""Kafka Connect's side, for tests: schemas and values, and the bytes that its JsonConverter makes of them.

Shares nothing with the source: it is the oracle.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_source_kafka.records import Records

PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True)
class Field:
    """A field of a schema, and how its values are written."""

    name: str
    type: str
    semantic: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    optional: bool = True
    items: Field | None = None
    fields: tuple[Field, ...] = ()

    def schema(self) -> dict[str, Any]:
        """The schema as JsonConverter embeds it."""
        found: dict[str, Any] = {"type": self.type, "optional": self.optional}
        if self.fields:
            found["fields"] = [f.schema() for f in self.fields]
        if self.items:
            found["items"] = self.items.schema()
        if self.semantic:
            found |= {"name": self.semantic, "version": 1}
        if self.parameters:
            found["parameters"] = self.parameters
        return found | {"field": self.name}


def struct(name: str, *fields: Field, semantic: str = "", optional: bool = True) -> Field:
    """A struct."""
    return Field(name, "struct", semantic, optional=optional, fields=fields)


def written(value: Any) -> Any:
    """A value as Jackson writes it: bytes in base64, NaN and infinity in quotes, decimals by their bytes."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            sign, digits, _ = value.as_tuple()
            unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
            return written(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
        case list():
            return [written(v) for v in value]
        case dict():
            return {k: written(v) for k, v in value.items()}
        case _:
            return value


def dumps(value: Any) -> str:
    """JSON without white space."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def with_schema(schema: Field, payload: Any) -> bytes:
    """A record with its schema embedded."""
    document = schema.schema()
    del document["field"]
    return f'{{"schema":{dumps(document)},"payload":{dumps(written(payload))}}}'.encode()


@dataclass(frozen=True)
class Table:
    """A captured table."""

    columns: tuple[Field, ...]
    key: tuple[str, ...] = ("id",)
    connector: str = "postgresql"
    name: str = "orders"

    @property
    def envelope(self) -> Field:
        """The schema of its envelopes."""
        source = struct(
            "source",
            Field("connector", "string", optional=False),
            Field("db", "string", optional=False),
            Field("schema", "string", optional=False),
            Field("table", "string", optional=False),
            Field("ts_ms", "int64", optional=False),
            Field("ts_us", "int64"),
            semantic=f"io.debezium.connector.{self.connector}.Source",
            optional=False,
        )
        transaction = struct("transaction", Field("id", "string"), Field("total_order", "int64"))
        rows = [struct(which, *self.columns, semantic="s.t.Value") for which in ("before", "after")]
        op = Field("op", "string", optional=False)
        return struct("", *rows, source, transaction, op, semantic="s.t.Envelope", optional=False)

    @property
    def key_schema(self) -> Field:
        """The schema of its keys."""
        chosen = tuple(c for c in self.columns if c.name in self.key)
        return struct("", *chosen, semantic="s.t.Key", optional=False)

    def payload(self, op: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
        """An envelope's payload."""
        named = {"connector": self.connector, "db": "shop", "schema": "public", "table": self.name}
        stamps = {"ts_ms": 1_700_000_000_000, "ts_us": 1_700_000_000_000_123}
        return {"before": before, "after": after, "source": named | stamps | source, "transaction": None, "op": op}

    def change(self, op: str, before: Any, after: Any, **source: Any) -> tuple[bytes | None, bytes]:
        """A record: key and value."""
        row = after or before or {}
        key = with_schema(self.key_schema, {k: row[k] for k in self.key}) if self.key and row else None
        return key, with_schema(self.envelope, self.payload(op, before, after, **source))


def records(*pairs: tuple[bytes | None, bytes | None], first: int = 100) -> Records:
    """Records of one partition."""
    keys, values = [k for k, _ in pairs], [v for _, v in pairs]
    offsets = np.arange(first, first + len(pairs))
    stamps = np.full(len(pairs), 1_700_000_000_500)
    return Records("s.public.orders", 0, offsets, stamps, pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
