"""Types of columns that are configured in the settings (`columnTypes`), for records without a schema."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INSTANT,
    INT64,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    DataType,
    Decimal,
    parse_type,
)
from replicator_source_kafka.types.column_codec import JSON_TEXT, Codec, as_it_is, text_of
from replicator_source_kafka.types.values import temporal
from replicator_source_kafka.types.values.byte_arrays import from_base64
from replicator_source_kafka.types.values.decimals import decimals
from replicator_source_kafka.types.values.temporal import MICROS, MILLIS, NANOS

_UNITS = {"ms": MILLIS, "us": MICROS, "ns": NANOS}
_NATURAL = {"bool": BOOL, "int": INT64, "float": FLOAT64, "token": STRING, "string": STRING}
_TEXT, _INT = pa.string(), pa.int64()
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


def parse_hint(text: str) -> tuple[DataType, int | None]:
    """A standard type, and the unit of its numbers if given: `timestamp/ms`, `time/us`, `instant/ns`.

    Raises:
        ValueError: When the text is not a type.
    """
    kind, slash, unit = text.rpartition("/")
    if not slash:
        return parse_type(text), None
    if kind not in {"time", "timestamp", "instant"} or unit not in _UNITS:
        raise ValueError(f"{text!r} is not a standard type")
    return parse_type(kind), _UNITS[unit]


def hinted_codec(natural: str, hint: str | None) -> Codec:
    """The codec of a column whose values have a JSON kind.

    Args:
        natural: The kind: `bool`, `int`, `float`, `token`, `string`, `nested` or `null`.
        hint: The configured type; None for the type of the kind.

    Raises:
        ValueError: When values of that kind cannot be of the type.
    """
    if hint is None:
        if natural not in _NATURAL:
            return Codec(JSON_TEXT, JSON, lambda values, _limits: text_of(values))
        kind = _NATURAL[natural]
        return Codec(kind.arrow, kind, as_it_is)
    kind, unit = parse_hint(hint)
    if kind == JSON and natural not in {"string", "token"}:
        return Codec(JSON_TEXT, JSON, lambda values, _limits: text_of(values))
    if natural in {"string", "token", "null"}:
        return _from_text(kind)
    if natural in {"int", "float"}:
        return _from_number(kind, unit, natural)
    return Codec(kind.arrow, kind, as_it_is)


def _from_text(kind: DataType) -> Codec:
    converts: dict[DataType, Callable[..., pa.Array]] = {
        DATE: temporal.iso_dates,
        TIME: temporal.iso_times,
        TIMESTAMP: temporal.iso_timestamps,
        INSTANT: temporal.zoned_timestamps,
        BINARY: lambda values, _limits: from_base64(values),
        UUID: lambda values, _limits: pc.utf8_lower(values),
    }
    if isinstance(kind, Decimal):
        return Codec(_TEXT, kind, lambda values, _limits: _decimals(values, kind))
    if kind in converts:
        return Codec(_TEXT, kind, converts[kind])
    return Codec(kind.arrow, kind, as_it_is)


def _from_number(kind: DataType, unit: int | None, natural: str) -> Codec:
    if kind == DATE:
        return Codec(pa.int32(), DATE, temporal.dates)
    if kind in {TIME, TIMESTAMP, INSTANT}:
        if unit is None or natural != "int":
            raise ValueError(f"{kind} from numbers needs a unit, as in {kind}/ms")
        return _from_epoch(kind, unit)
    # Arrow reads a decimal's digits from the number's text, without rounding.
    return Codec(kind.arrow, kind, as_it_is)


def _from_epoch(kind: DataType, unit: int) -> Codec:
    if kind == TIME:
        return Codec(_INT, TIME, lambda values, limits: temporal.times(values, unit, limits))
    return Codec(_INT, kind, lambda values, limits: temporal.timestamps(values, unit, limits).cast(kind.arrow))


def _decimals(values: pa.StringArray, kind: Decimal) -> pa.Array:
    """Decimals from plain text, or from Connect's base64. Text that may be both is refused."""
    if pa.types.is_decimal(values.type):
        return values.cast(kind.arrow)
    number = pc.match_substring_regex(values, _NUMBER)
    encoded = pc.match_substring_regex(values, _BASE64)
    if pc.any(pc.and_(number, encoded)).as_py() or pc.all(pc.or_(number, encoded)).as_py() is False:
        raise ValueError("neither text nor bytes of a decimal, or possibly both")
    nothing = pa.scalar(None, pa.string())
    from_text = pc.if_else(number, values, nothing).cast(kind.arrow)
    return pc.coalesce(from_text, decimals(pc.if_else(encoded, values, nothing), kind.scale, kind))
