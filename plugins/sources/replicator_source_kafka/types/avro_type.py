"""Maps Avro schemas to Connect's types, which Connect's converters store in `connect.…` properties."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from replicator_source_kafka.types.connect_type import ConnectType

_BASES = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
    "fixed": "bytes",
}
_LOGICAL = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "uuid": "io.debezium.data.Uuid",
}


def avro_connect_type(schema: Any) -> ConnectType:
    """The type that a parsed Avro schema (its names are full) describes.

    Raises:
        ValueError: For unions of several types and recursive schemas, which columns cannot hold.
    """
    return _Reading().type_of(schema, optional=False)


def without_logical_types(schema: Any) -> Any:
    """The schema without logical types, so that a reader returns the stored numbers and bytes."""
    if isinstance(schema, list):
        return [without_logical_types(s) for s in schema]
    if isinstance(schema, dict):
        return {
            k: without_logical_types(v) if k in {"type", "items", "values", "fields"} else v
            for k, v in schema.items()
            if k != "logicalType"
        }
    return schema


class _Reading:
    """Reads one schema, and collects its names."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}
        self._open: list[str] = []

    def type_of(self, schema: Any, *, optional: bool) -> ConnectType:
        if isinstance(schema, list):
            kinds = [s for s in schema if s not in ("null", {"type": "null"})]
            if len(kinds) != 1:
                raise ValueError("has a schema with a union of several types")
            return self.type_of(kinds[0], optional=optional or len(kinds) < len(schema))
        if isinstance(schema, str):
            if schema in _BASES:
                return ConnectType(_BASES[schema], optional=optional)
            if schema not in self._named or schema in self._open:
                raise ValueError("has a schema that refers to itself, or to an unknown name")
            return self.type_of(self._named[schema], optional=optional)
        if not isinstance(schema, dict):
            raise ValueError("has a schema that is not an Avro schema")  # noqa: TRY004 - one error for all of it
        if isinstance(schema["type"], list | dict):
            return self.type_of(schema["type"], optional=optional)
        return self._complex(schema, optional)

    def _complex(self, schema: dict[str, Any], optional: bool) -> ConnectType:
        base, name = schema["type"], str(schema.get("connect.name", ""))
        parameters = {str(k): str(v) for k, v in (schema.get("connect.parameters") or {}).items()}
        logical = schema.get("logicalType")
        if not name and logical in _LOGICAL:
            name = _LOGICAL[logical]
        if logical == "decimal":
            own = {"scale": str(schema.get("scale", 0)), "connect.decimal.precision": str(schema.get("precision", 38))}
            parameters = {**own, **parameters}
        if base == "record":
            return self._record(schema, name, parameters, optional)
        if base in {"enum", "fixed"}:
            self._named[schema["name"]] = schema
        if base == "array":
            return ConnectType("array", name, parameters, optional, items=self.type_of(schema["items"], optional=False))
        if base == "map":
            values, keys = self.type_of(schema["values"], optional=False), ConnectType("string")
            return ConnectType("map", name, parameters, optional, items=values, keys=keys)
        if base not in _BASES:
            return self.type_of(base, optional=optional)
        return ConnectType(str(schema.get("connect.type", _BASES[base])), name, parameters, optional)

    def _record(self, schema: dict[str, Any], name: str, parameters: dict[str, str], optional: bool) -> ConnectType:
        full_name = schema["name"]
        self._named[full_name] = schema
        self._open.append(full_name)
        fields = tuple((f["name"], self.type_of(f["type"], optional=False)) for f in schema["fields"])
        self._open.pop()
        return ConnectType("struct", name or full_name, parameters, optional, fields=fields)


def raw_wire(kind: ConnectType, wire: pa.DataType) -> pa.DataType:
    """`wire`, which is for JSON, changed for values in which bytes are bytes."""
    if kind.base == "bytes":
        return pa.binary()
    if pa.types.is_list(wire) and kind.items is not None:
        return pa.list_(pa.field("element", raw_wire(kind.items, wire.value_type)))
    if pa.types.is_struct(wire):
        fields = dict(kind.fields)
        return pa.struct([pa.field(f.name, raw_wire(fields[f.name], f.type)) for f in wire])
    return wire
