"""Codecs of columns in Protobuf messages, by Connect's types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import validity
from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import JSON, TIMESTAMP, Array, Record
from replicator_source_kafka.types.column_codec import JSON_TEXT, Codec
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.nested import array_of, record_of
from replicator_source_kafka.types.protobuf_type import VARIABLE_SCALE, WIDTH
from replicator_source_kafka.types.standard_types import codec_of
from replicator_source_kafka.types.type_hints import hinted_codec
from replicator_source_kafka.types.values import date_parts, temporal

_CONNECT = "org.apache.kafka.connect.data."
_WIRES = {
    "int8": pa.int32(),
    "int16": pa.int32(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_NATURAL = {"float": "float", "double": "float", "boolean": "bool", "string": "string"}
_DECIMAL = pa.struct([("value", pa.binary()), ("scale", pa.int32())])
_DATE = pa.struct([(name, pa.int32()) for name in ("year", "month", "day")])
_TIME = pa.struct([(name, pa.int32()) for name in ("hours", "minutes", "seconds", "nanos")])
_TIMESTAMP = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
_MAY_BE_NULL = "an empty list or map, which in Protobuf may also mean NULL"


def protobuf_codec(kind: ConnectType, connector: str = "", hint: str | None = None) -> Codec:
    """The codec of a type.

    Args:
        kind: The column's type.
        connector: Debezium's connector.
        hint: The configured type; used if the schema has only a base type, since Connect's converter drops most semantic
            names.

    Raises:
        ValueError: When values of the type cannot be of the configured type.
    """
    if make := _MESSAGES.get(kind.name):
        return make(kind, connector)
    if kind.base in _WIRES:
        return _scalar(kind, connector, hint)
    if kind.base == "array" and kind.items is not None:
        return _array(protobuf_codec(kind.items, connector))
    if kind.base == "map" and kind.items is not None and kind.keys is not None:
        return _map(protobuf_codec(kind.keys), protobuf_codec(kind.items, connector))
    if "wkb" in dict(kind.fields) and kind.name.startswith("io.debezium.data.geometry."):
        base = codec_of(kind, connector)
        return Codec(pa.struct([("wkb", pa.binary())]), base.kind, base.convert)
    return _record(tuple((name, protobuf_codec(field, connector)) for name, field in kind.fields))


def _scalar(kind: ConnectType, connector: str, hint: str | None) -> Codec:
    wire = pa.uint64() if kind.parameters.get(WIDTH) == "uint64" else _WIRES[kind.base]
    if hint is None or kind.base == "bytes":
        base = codec_of(kind, connector)
    else:
        base = hinted_codec(_NATURAL.get(kind.base, "int"), hint)
        if base.wire == JSON_TEXT:
            raise ValueError(f"{hint} from values that are not text")
    if kind.base == "bytes" or base.wire == wire:
        return Codec(wire, base.kind, base.convert)
    return Codec(wire, base.kind, lambda values, limits: base.convert(values.cast(base.wire), limits))


def _decimal(kind: ConnectType, connector: str) -> Codec:
    base, scale = codec_of(kind, connector), int(kind.parameters["scale"])

    def convert(values: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
        unscaled, scales = values.flatten()
        if not pc.all(pc.equal(scales, scale)).as_py() and len(scales.drop_null()):
            raise ValueError("a decimal of another scale than its column's")
        return base.convert(unscaled, limits)

    return Codec(_DECIMAL, base.kind, convert)


def _variable_scale(kind: ConnectType, connector: str) -> Codec:
    base = codec_of(kind, connector)
    return Codec(_DECIMAL, base.kind, base.convert)


def _date(kind: ConnectType, connector: str) -> Codec:
    base = codec_of(kind, connector)
    return Codec(_DATE, base.kind, lambda values, limits: base.convert(date_parts.days(*values.flatten()), limits))


def _time(_kind: ConnectType, connector: str) -> Codec:
    base = codec_of(ConnectType("int64", "io.debezium.time.NanoTime"), connector)
    return Codec(
        _TIME, base.kind, lambda values, limits: base.convert(date_parts.nanoseconds(*values.flatten()), limits)
    )


def _timestamp(_kind: ConnectType, _connector: str) -> Codec:
    def convert(values: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
        seconds, nanos = values.flatten()
        return temporal.timestamps_of_parts(seconds, nanos, limits)

    return Codec(_TIMESTAMP, TIMESTAMP, convert)


_MESSAGES: dict[str, Callable[[ConnectType, str], Codec]] = {
    _CONNECT + "Decimal": _decimal,
    _CONNECT + "Date": _date,
    _CONNECT + "Time": _time,
    _CONNECT + "Timestamp": _timestamp,
    VARIABLE_SCALE: _variable_scale,
}


def _array(element: Codec) -> Codec:
    kind = Array(element.kind)

    def convert(values: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
        return array_of(_checked_for_null(values, values.value_lengths(), limits), element, kind, limits)

    return Codec(pa.list_(pa.field("element", element.wire)), kind, convert)


def _map(key: Codec, value: Codec) -> Codec:
    def convert(values: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
        lengths = pc.list_value_length(values.cast(_entries(values.type)))
        values = _checked_for_null(values, lengths, limits)
        inner = replace(limits, locate=None)
        columns = (key.convert(values.keys, inner).to_pylist(), value.convert(values.items, inner).to_pylist())
        entries = list(zip(*columns, strict=True))
        ends = np.cumsum(lengths.fill_null(0).to_numpy())
        found = [
            json.dumps(dict(entries[end - size : end]), ensure_ascii=False, separators=(",", ":"), default=str)
            for end, size in zip(ends.tolist(), lengths.fill_null(0).to_pylist(), strict=True)
        ]
        return pa.array(found, pa.string(), mask=~validity(values))

    return Codec(pa.map_(key.wire, value.wire), JSON, convert)


def _entries(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([kind.key_field, kind.item_field]))


def _checked_for_null(values: pa.Array, lengths: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
    """An empty repeated field may mean NULL: it is handled by the policy; `clamp` keeps it empty."""
    return limits.keep_clamped(values, pc.equal(lengths, 0), _MAY_BE_NULL)


def _record(fields: tuple[tuple[str, Codec], ...]) -> Codec:
    kind = Record(tuple((name, codec.kind) for name, codec in fields))
    wire = pa.struct([pa.field(name, codec.wire) for name, codec in fields])
    return Codec(wire, kind, lambda values, limits: record_of(values, [codec for _, codec in fields], kind, limits))
