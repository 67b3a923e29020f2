"""Codecs of semantic types: Debezium's (`io.debezium.…`) and Connect's own (`org.apache.kafka.connect.data.…`)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.datatype import (
    BINARY,
    DATE,
    INSTANT,
    INT16,
    INT64,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    DataType,
    Decimal,
)
from replicator_source_kafka.types.column_codec import Codec, as_it_is, cast_to
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.values import bits, temporal
from replicator_source_kafka.types.values.byte_arrays import from_base64
from replicator_source_kafka.types.values.decimals import decimal_texts, decimals, variable_scale
from replicator_source_kafka.types.values.temporal import MICROS, MILLIS, NANOS

MYSQL_FAMILY = frozenset({"mysql", "mariadb"})
_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_INT32, _INT64, _TEXT = pa.int32(), pa.int64(), pa.string()
_LONGEST_BITS = 8_192
_DIGITS = 38
_MOST_DIGITS = 76


def semantic_codec(kind: ConnectType, connector: str, numeric: bool = False) -> Codec | None:
    """The codec of a known semantic type; None for unknown names, for which the base type is used.

    With `numeric`, decimals are read from JSON numbers.
    """
    if numeric and (kind.name, kind.base) == (_CONNECT + "Decimal", "bytes"):
        return _numeric(kind, connector)
    if found := _FIXED.get((kind.name, kind.base)):
        return found
    if make := _MADE.get((kind.name, kind.base)):
        return make(kind, connector)
    return None


def _stamps(wire: pa.DataType, unit: int) -> Codec:
    return Codec(wire, TIMESTAMP, lambda values, limits: temporal.timestamps(values, unit, limits))


def _days() -> Codec:
    return Codec(_INT32, DATE, temporal.dates)


def _text(kind: DataType = STRING) -> Codec:
    return Codec(_TEXT, kind, as_it_is)


def _uuid() -> Codec:
    return Codec(_TEXT, UUID, lambda values, _limits: pc.utf8_lower(values))


def _times(wire: pa.DataType, unit: int) -> Callable[[ConnectType, str], Codec]:
    """A time of day; MySQL's TIME is a duration, which the MySQL source returns as text."""

    def make(kind: ConnectType, connector: str) -> Codec:
        if connector not in MYSQL_FAMILY:
            return Codec(wire, TIME, lambda values, limits: temporal.times(values, unit, limits))
        digits = int(kind.parameters.get("__debezium.source.column.length", "6"))
        return Codec(wire, STRING, lambda values, limits: temporal.durations_as_text(values, unit, digits, limits))

    return make


def _decimal(kind: ConnectType, connector: str) -> Codec:
    scale = int(kind.parameters.get("scale", "0"))
    declared = kind.parameters.get("connect.decimal.precision")
    # `bigint.unsigned.handling.mode=precise` gives no precision; the type has 20 digits.
    unsigned = declared is None and scale == 0 and connector in MYSQL_FAMILY
    precision = int(declared) if declared else 20 if unsigned else _DIGITS
    precision = max(precision - min(scale, 0), scale, 1)
    if precision > _DIGITS:
        return Codec(_TEXT, STRING, lambda values, _limits: decimal_texts(values, scale))
    standard = Decimal(precision, max(scale, 0))
    return Codec(_TEXT, standard, lambda values, _limits: decimals(values, scale, standard))


def _numeric(kind: ConnectType, connector: str) -> Codec:
    """Decimals from JSON numbers: Arrow reads their digits from the text, without rounding."""
    base, scale = _decimal(kind, connector), int(kind.parameters.get("scale", "0"))
    wire = base.kind.arrow if isinstance(base.kind, Decimal) else pa.decimal256(_MOST_DIGITS, max(scale, 0))
    return Codec(wire, base.kind, base.convert)


def _bits(kind: ConnectType, connector: str) -> Codec:
    length = int(kind.parameters.get("length", "0"))
    if connector == "postgresql" and 0 < length <= _LONGEST_BITS:
        return Codec(_TEXT, STRING, lambda values, _limits: bits.as_text(values, length))
    if 0 < length <= _LONGEST_BITS:
        return Codec(_TEXT, BINARY, lambda values, _limits: bits.big_endian(values, length))
    # Postgres' `bit varying` has no length in the schema: the bytes are returned as received, little-endian.
    return Codec(_TEXT, BINARY, lambda values, _limits: from_base64(values))


def _geometry() -> Codec:
    """The WKB only; Debezium's SRID, and a point's x and y, are left out."""
    wire = pa.struct([("wkb", _TEXT)])
    return Codec(wire, BINARY, lambda values, _limits: from_base64(_field(values, "wkb")))


def _variable_scale() -> Codec:
    wire = pa.struct([("scale", _INT32), ("value", _TEXT)])
    return Codec(wire, STRING, lambda values, _limits: variable_scale(values))


def _field(values: pa.StructArray, name: str) -> pa.Array:
    """A struct's field, NULL where the struct is NULL."""
    return values.flatten()[values.type.get_field_index(name)]


_FIXED: dict[tuple[str, str], Codec] = {
    (_TIME + "Date", "int32"): _days(),
    (_CONNECT + "Date", "int32"): _days(),
    (_TIME + "Timestamp", "int64"): _stamps(_INT64, MILLIS),
    (_TIME + "MicroTimestamp", "int64"): _stamps(_INT64, MICROS),
    (_TIME + "NanoTimestamp", "int64"): _stamps(_INT64, NANOS),
    (_CONNECT + "Timestamp", "int64"): _stamps(_INT64, MILLIS),
    (_TIME + "ZonedTimestamp", "string"): Codec(_TEXT, INSTANT, temporal.zoned_timestamps),
    (_TIME + "ZonedTime", "string"): _text(),
    (_TIME + "IsoDate", "string"): Codec(_TEXT, DATE, temporal.iso_dates),
    (_TIME + "IsoTime", "string"): Codec(_TEXT, TIME, temporal.iso_times),
    (_TIME + "IsoTimestamp", "string"): Codec(_TEXT, TIMESTAMP, temporal.iso_timestamps),
    (_TIME + "Interval", "string"): _text(),
    (_TIME + "MicroDuration", "int64"): Codec(_INT64, INT64, as_it_is),
    (_TIME + "NanoDuration", "int64"): Codec(_INT64, INT64, as_it_is),
    (_TIME + "Year", "int32"): Codec(_INT32, INT16, cast_to(INT16)),
    (_DATA + "Json", "string"): _text(JSON),
    (_DATA + "Uuid", "string"): _uuid(),
    (_DATA + "VariableScaleDecimal", "struct"): _variable_scale(),
    (_DATA + "geometry.Geometry", "struct"): _geometry(),
    (_DATA + "geometry.Geography", "struct"): _geometry(),
    (_DATA + "geometry.Point", "struct"): _geometry(),
}
# Xml, Enum, EnumSet, Ltree, Tsvector and the like are strings with a name: the base type is used.

_MADE: dict[tuple[str, str], Callable[[ConnectType, str], Codec]] = {
    (_TIME + "Time", "int32"): _times(_INT32, MILLIS),
    (_TIME + "MicroTime", "int64"): _times(_INT64, MICROS),
    (_TIME + "NanoTime", "int64"): _times(_INT64, NANOS),
    (_CONNECT + "Time", "int32"): _times(_INT32, MILLIS),
    (_CONNECT + "Decimal", "bytes"): _decimal,
    (_DATA + "Bits", "bytes"): _bits,
}
