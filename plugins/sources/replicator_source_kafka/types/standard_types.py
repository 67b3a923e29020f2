"""Maps types of Connect to standard types and codecs (docs/types.md, "Kafka")."""

from __future__ import annotations

import pyarrow as pa

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    STRING,
    Array,
    DataType,
    Record,
)
from replicator_source_kafka.types.column_codec import JSON_TEXT, Codec, as_it_is, cast_to, text_of
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.nested import array_of, record_of
from replicator_source_kafka.types.semantic_types import semantic_codec
from replicator_source_kafka.types.values.byte_arrays import from_base64

_PLAIN: dict[str, DataType] = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "float": FLOAT32,
    "double": FLOAT64,
    "boolean": BOOL,
    "string": STRING,
}


def codec_of(kind: ConnectType, connector: str = "", numeric: bool = False) -> Codec:
    """The codec of a type.

    Args:
        kind: The column's type.
        connector: The Debezium connector that wrote the record (`mysql`), if known; some of its types are then read like
            this project's source of that database reads them.
        numeric: Whether decimals are numbers in JSON (the converter's `decimal.format`).
    """
    if found := semantic_codec(kind, connector, numeric):
        return found
    if kind.base in _PLAIN:
        standard = _PLAIN[kind.base]
        return Codec(standard.arrow, standard, as_it_is)
    if kind.base == "bytes":
        return Codec(pa.string(), BINARY, lambda values, _limits: from_base64(values))
    if kind.base == "array" and kind.items is not None:
        return _array(codec_of(kind.items, connector, numeric))
    if kind.base == "struct" and kind.fields:
        return _record(tuple((name, codec_of(field, connector, numeric)) for name, field in kind.fields))
    # Maps, and structs without fields.
    return Codec(JSON_TEXT, JSON, lambda values, _limits: text_of(values))


def _array(element: Codec) -> Codec:
    kind = Array(element.kind)
    wire = pa.list_(pa.field("element", element.wire))
    if element.convert is as_it_is:
        return Codec(wire, kind, cast_to(kind))
    return Codec(wire, kind, lambda values, limits: array_of(values, element, kind, limits))


def _record(fields: tuple[tuple[str, Codec], ...]) -> Codec:
    kind = Record(tuple((name, codec.kind) for name, codec in fields))
    wire = pa.struct([pa.field(name, codec.wire) for name, codec in fields])

    def convert(values: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
        return record_of(values, [codec for _, codec in fields], kind, limits)

    return Codec(wire, kind, convert)
