"""Schemas of Kafka Connect, as its JsonConverter embeds them in every record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SIMPLE = frozenset({"int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"})


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A schema of Connect's.

    Attributes:
        base: `int8` … `int64`, `float`, `double`, `boolean`, `string`, `bytes`, `array`, `map` or `struct`.
        name: The semantic name, e.g. `io.debezium.time.Date`; empty without one.
        parameters: Parameters of the semantic type, e.g. a decimal's scale.
        optional: Whether a value may be null.
        fields: A struct's fields, in order.
        items: An array's elements, a map's values.
        keys: A map's keys.
    """

    base: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    optional: bool = True
    fields: tuple[tuple[str, ConnectType], ...] = ()
    items: ConnectType | None = None
    keys: ConnectType | None = None

    def get(self, field_name: str) -> ConnectType | None:
        """The type of a struct's field; None when it has none of that name."""
        return next((kind for name, kind in self.fields if name == field_name), None)

    @property
    def source_type(self) -> str:
        """The type for people to read: the database's if the connector passes it on, otherwise Connect's."""
        if declared := self.parameters.get("__debezium.source.column.type"):
            sizes = [self.parameters.get(f"__debezium.source.column.{size}") for size in ("length", "scale")]
            given = [size for size in sizes if size is not None]
            return f"{declared}({','.join(given)})" if given else declared
        return self.name or self.base


def parse_connect_type(schema: Any) -> ConnectType:
    """The type that a JSON schema of Connect's describes.

    Raises:
        ValueError: When the schema is invalid.
    """
    if not isinstance(schema, dict):
        raise ValueError("a schema is not an object")  # noqa: TRY004 - one error for all invalid schemas
    base = schema.get("type")
    name, parameters = str(schema.get("name") or ""), schema.get("parameters") or {}
    common = (name, {str(k): str(v) for k, v in dict(parameters).items()}, bool(schema.get("optional", False)))
    if base in _SIMPLE:
        return ConnectType(base, *common)
    if base == "array":
        return ConnectType(base, *common, items=parse_connect_type(schema.get("items")))
    if base == "map":
        keys, values = parse_connect_type(schema.get("keys")), parse_connect_type(schema.get("values"))
        return ConnectType(base, *common, items=values, keys=keys)
    if base == "struct":
        fields = tuple((str(f["field"]), parse_connect_type(f)) for f in schema.get("fields") or ())
        return ConnectType(base, *common, fields=fields)
    raise ValueError(f"a schema has the unknown type {base!r}")
