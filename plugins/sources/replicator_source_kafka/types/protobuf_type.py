"""Maps Protobuf messages to Connect's types, of which Connect's converter keeps few names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replicator_source_kafka.types.connect_type import ConnectType

WIDTH = "io.confluent.connect.protobuf.Type"
"""The parameter with the value `uint64` for unsigned numbers of 64 bits."""
_CONNECT, _DATA = "org.apache.kafka.connect.data.", "io.debezium.data."
_BASES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "int64",
    5: "int32",
    6: "int64",
    7: "int64",
    8: "boolean",
    9: "string",
    12: "bytes",
    13: "int64",
    14: "string",
    15: "int32",
    16: "int64",
    17: "int32",
    18: "int64",
}
"""By the numbers of field types, without group (10) and message (11)."""
_UNSIGNED = frozenset({4, 6})
_MESSAGE = 11
_WRAPPERS = {
    "Double": ("double", ""),
    "Float": ("float", ""),
    "Int64": ("int64", ""),
    "UInt64": ("int64", "uint64"),
    "Int32": ("int32", ""),
    "UInt32": ("int64", ""),
    "Bool": ("boolean", ""),
    "String": ("string", ""),
    "Bytes": ("bytes", ""),
}
_KNOWN = {
    "google.type.Date": ("int32", _CONNECT + "Date"),
    "google.type.TimeOfDay": ("int32", _CONNECT + "Time"),
    "google.protobuf.Timestamp": ("int64", _CONNECT + "Timestamp"),
}
_DECIMAL = "confluent.type.Decimal"
VARIABLE_SCALE = _DATA + "VariableScaleDecimal"
_BY_SHAPE = {
    ("VariableScaleDecimal", frozenset({"scale", "value"})): VARIABLE_SCALE,
    ("Geometry", frozenset({"wkb", "srid"})): _DATA + "geometry.Geometry",
    ("Geography", frozenset({"wkb", "srid"})): _DATA + "geometry.Geography",
    ("Point", frozenset({"x", "y", "wkb", "srid"})): _DATA + "geometry.Point",
}
"""Debezium's structs, whose names lose their packages in the converter."""

Parameters = Callable[[Any], Mapping[str, str]]
"""Returns the parameters of a field, see `ProtobufFile.parameters`."""


def protobuf_connect_type(message: Any, parameters: Parameters) -> ConnectType:
    """The struct that a message's descriptor describes. A field without presence is never NULL.

    Raises:
        ValueError: For recursive messages, which columns cannot hold.
    """
    return _Reading(parameters).struct(message, optional=False)


class _Reading:
    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._open: list[str] = []

    def struct(self, message: Any, *, optional: bool) -> ConnectType:
        if message.full_name in self._open:
            raise ValueError("has a schema with a recursive message")
        self._open.append(message.full_name)
        fields = tuple((field.name, self._field(field)) for field in message.fields)
        self._open.pop()
        name = _BY_SHAPE.get((message.name, frozenset(message.fields_by_name)), message.full_name)
        return ConnectType("struct", name, {}, optional, fields)

    def _field(self, field: Any) -> ConnectType:
        if not field.is_repeated:
            return self._single(field, optional=field.has_presence)
        if field.type == _MESSAGE and field.message_type.GetOptions().map_entry:
            key, value = (self._single(part, optional=True) for part in field.message_type.fields)
            return ConnectType("map", "", {}, True, items=value, keys=key)
        return ConnectType("array", "", {}, True, items=self._single(field, optional=True))

    def _single(self, field: Any, *, optional: bool) -> ConnectType:
        if field.type == _MESSAGE:
            return self._message(field, field.message_type, optional)
        base = _BASES.get(field.type, "")
        if not base:
            raise ValueError("has a schema with a group")
        declared = self._parameters(field).get("connect.type", base)
        base = declared if base == "int32" and declared in {"int8", "int16"} else base
        return ConnectType(base, "", {WIDTH: "uint64"} if field.type in _UNSIGNED else {}, optional)

    def _message(self, field: Any, message: Any, optional: bool) -> ConnectType:
        package, _, name = message.full_name.rpartition(".")
        if package == "google.protobuf" and name.endswith("Value") and name[:-5] in _WRAPPERS:
            base, width = _WRAPPERS[name[:-5]]
            base = self._parameters(field).get("connect.type", base)
            return ConnectType(base, "", {WIDTH: width} if width else {}, optional)
        if message.full_name in _KNOWN:
            return ConnectType(*_KNOWN[message.full_name], {}, optional)
        if message.full_name == _DECIMAL:
            return self._decimal(field, optional)
        return self.struct(message, optional=optional)

    def _decimal(self, field: Any, optional: bool) -> ConnectType:
        declared = self._parameters(field)
        if "scale" not in declared:  # each value then contains its scale
            parts = (("scale", ConnectType("int32")), ("value", ConnectType("bytes")))
            return ConnectType("struct", VARIABLE_SCALE, {}, optional, parts)
        parameters = {"scale": declared["scale"]}
        if "precision" in declared:
            parameters["connect.decimal.precision"] = declared["precision"]
        return ConnectType("bytes", _CONNECT + "Decimal", parameters, optional)
