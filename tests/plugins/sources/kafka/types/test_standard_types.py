"""The standard type of every semantic type, and a value of it."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError
from replicator_source_kafka.formats.json_records.json_value import fit
from replicator_source_kafka.types.connect_type import ConnectType
from replicator_source_kafka.types.standard_types import codec_of
from tests.plugins.sources.kafka.formats.connect import written

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
MICROS = 1_706_933_106_000_007
AT = dt.datetime(2024, 2, 3, 4, 5, 6, 7)


def kind(base: str, name: str = "", **parameters: str) -> ConnectType:
    """A type."""
    return ConnectType(base, name, {k.replace("_", "."): v for k, v in parameters.items()})


def convert(of: ConnectType, *values: Any, connector: str = "", rule: OutOfRange = OutOfRange.FAIL) -> list[Any]:
    """The values as the converter writes them, and a NULL after them, in their standard type."""
    codec = codec_of(of, connector)
    read = pa.array([fit(written(v), codec.wire) for v in (*values, None)], codec.wire)
    result = codec.convert(read, OutOfRangePolicy(rule, "t", "c", "RPL-3905"))
    assert result.type == codec.kind.arrow
    result.validate(full=True)
    found: list[Any] = result.to_pylist()
    nothing = found.pop()
    assert nothing is None
    return found


GEOMETRY = ConnectType("struct", DATA + "geometry.Geometry", fields=(("wkb", kind("bytes")), ("srid", kind("int32"))))
VARIABLE = ConnectType(
    "struct", DATA + "VariableScaleDecimal", fields=(("scale", kind("int32")), ("value", kind("bytes")))
)
UUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


@pytest.mark.parametrize(
    ("of", "standard", "value", "wanted"),
    [
        (kind("int8"), "int8", -128, -128),
        (kind("float"), "float32", 0.5, 0.5),
        (kind("bytes"), "binary", b"\0\xff", b"\0\xff"),
        (kind("int32", TIME + "Date"), "date", -1, dt.date(1969, 12, 31)),
        (kind("int32", CONNECT + "Date"), "date", 0, dt.date(1970, 1, 1)),
        (kind("int32", TIME + "Time"), "time", 1, dt.time(0, 0, 0, 1000)),
        (kind("int64", TIME + "MicroTime"), "time", 86_399_999_999, dt.time.max),
        (kind("int64", TIME + "NanoTime"), "time", 1_000, dt.time(0, 0, 0, 1)),
        (kind("int32", CONNECT + "Time"), "time", 0, dt.time()),
        (kind("int64", TIME + "Timestamp"), "timestamp", MICROS // 1000, AT.replace(microsecond=0)),
        (kind("int64", TIME + "MicroTimestamp"), "timestamp", MICROS, AT),
        (kind("int64", TIME + "NanoTimestamp"), "timestamp", MICROS * 1000, AT),
        (kind("int64", TIME + "NanoTimestamp"), "timestamp", -1000, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        (kind("int64", CONNECT + "Timestamp"), "timestamp", 0, dt.datetime(1970, 1, 1)),
        (kind("string", TIME + "ZonedTimestamp"), "instant", "2024-02-03T04:05:06.000007Z", AT.replace(tzinfo=dt.UTC)),
        (kind("string", TIME + "ZonedTimestamp"), "instant", "2024-02-03T06:05:06.000007000+02:00", AT.replace(tzinfo=dt.UTC)),
        (kind("string", TIME + "ZonedTime"), "string", "04:05:06Z", "04:05:06Z"),
        (kind("string", TIME + "IsoDate"), "date", "2024-02-03Z", AT.date()),
        (kind("string", TIME + "IsoTime"), "time", "04:05:06.000007Z", AT.time()),
        (kind("string", TIME + "IsoTimestamp"), "timestamp", "2024-02-03T04:05:06.000007Z", AT),
        (kind("string", TIME + "Interval"), "string", "P1Y", "P1Y"),
        (kind("int64", TIME + "MicroDuration"), "int64", -5, -5),
        (kind("int32", TIME + "Year"), "int16", 2024, 2024),
        (kind("string", DATA + "Json"), "json", '{"a": 1}', '{"a": 1}'),
        (kind("string", DATA + "Uuid"), "uuid", UUID.upper(), UUID),
        (kind("string", DATA + "Xml"), "string", "<a/>", "<a/>"),
        (kind("string", DATA + "Enum", allowed="a,b"), "string", "a", "a"),
        (kind("string", DATA + "EnumSet", allowed="a,b"), "string", "a,b", "a,b"),
        (kind("string", DATA + "Ltree"), "string", "a.b", "a.b"),
        (GEOMETRY, "binary", {"wkb": b"\1\2", "srid": None}, b"\1\2"),
        (VARIABLE, "string", {"scale": 3, "value": b"\xff"}, "-0.001"),
        (VARIABLE, "string", {"scale": -2, "value": b"\x05"}, "500"),
        (kind("bytes", CONNECT + "Decimal", scale="2", connect_decimal_precision="5"), "decimal(5,2)", Decimal("-1.50"), Decimal("-1.50")),
        (kind("bytes", CONNECT + "Decimal", scale="5", connect_decimal_precision="3"), "decimal(5,5)", Decimal("0.00012"), Decimal("0.00012")),
        (kind("bytes", CONNECT + "Decimal", scale="2", connect_decimal_precision="40"), "string", Decimal("-0.05"), "-0.05"),
        (kind("bytes", CONNECT + "Decimal", scale="-2", connect_decimal_precision="3"), "decimal(5,0)", Decimal(-123), Decimal(-12300)),
        (kind("bytes", DATA + "Bits", length="9"), "binary", b"\x02\x01", b"\x01\x02"),
        (ConnectType("map", items=kind("string"), keys=kind("string")), "json", {"a": "é"}, '{"a":"é"}'),
        (ConnectType("array", items=kind("int32", TIME + "Date")), "array<date>", [0, None], [dt.date(1970, 1, 1), None]),
        (ConnectType("array", items=kind("int64")), "array<int64>", [], []),
        (ConnectType("struct", fields=(("d", kind("int32", TIME + "Date")),)), 'record<"d":date>', {"d": 0}, {"d": dt.date(1970, 1, 1)}),
    ],
)  # fmt: skip
def test_a_type_has_its_standard_type_and_its_value(of: ConnectType, standard: str, value: Any, wanted: Any) -> None:
    assert str(codec_of(of).kind) == standard
    assert convert(of, value) == [wanted]
    assert convert(of, value, value) == [wanted, wanted]


@pytest.mark.parametrize(
    ("connector", "of", "standard", "value", "wanted"),
    [
        ("mysql", kind("int64", TIME + "MicroTime"), "string", -3_020_399_000_000, "-838:59:59.000000"),
        ("mariadb", kind("int32", TIME + "Time"), "string", 1_500, "00:00:01.500000"),
        ("mysql", ConnectType("int64", TIME + "MicroTime", {"__debezium.source.column.length": "0"}), "string", 1_000_000, "00:00:01"),
        ("mysql", kind("int64", TIME + "NanoTime"), "string", -3_020_399_000_001_000, "-838:59:59.000001"),
        ("mysql", kind("bytes", CONNECT + "Decimal", scale="0"), "decimal(20,0)", Decimal(2**64 - 1), Decimal(2**64 - 1)),
        ("postgresql", kind("bytes", DATA + "Bits", length="3"), "string", b"\x05", "101"),
        ("postgresql", kind("bytes", DATA + "Bits", length="10"), "string", b"\x01\x02", "1000000001"),
        ("mysql", kind("bytes", DATA + "Bits", length="9"), "binary", b"\x05", b"\x00\x05"),
    ],
)  # fmt: skip
def test_a_type_is_read_as_by_the_source_of_that_database(
    connector: str, of: ConnectType, standard: str, value: Any, wanted: Any
) -> None:
    assert str(codec_of(of, connector).kind) == standard
    assert convert(of, value, connector=connector) == [wanted]


@pytest.mark.parametrize(
    ("of", "value", "nearest"),
    [
        (kind("int32", TIME + "Date"), 2**31 - 1, dt.date.max),
        (kind("int64", TIME + "MicroTimestamp"), 2**63 - 1, dt.datetime.max),  # noqa: DTZ901 - it has none
        (kind("int64", TIME + "Timestamp"), -(2**62), dt.datetime.min),  # noqa: DTZ901 - it has none
        (kind("int64", TIME + "MicroTime"), 86_400_000_000, dt.time.max),
        (kind("string", TIME + "ZonedTimestamp"), "+10000-01-01T00:00:00Z", dt.datetime.max.replace(tzinfo=dt.UTC)),
        (kind("string", TIME + "ZonedTimestamp"), "-0001-01-01T00:00:00Z", dt.datetime.min.replace(tzinfo=dt.UTC)),
        (kind("int64", TIME + "NanoTime"), 1_999, dt.time(0, 0, 0, 1)),
        (kind("int64", TIME + "NanoTimestamp"), MICROS * 1000 + 1, AT),
        (kind("int64", TIME + "NanoTimestamp"), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        (kind("string", TIME + "ZonedTimestamp"), "2024-02-03T06:05:06.0000079+02:00", AT.replace(tzinfo=dt.UTC)),
        (kind("string", TIME + "IsoTime"), "04:05:06.00000700001Z", AT.time()),
    ],
)
def test_values_out_of_range_are_handled_by_the_policy(of: ConnectType, value: Any, nearest: Any) -> None:
    with pytest.raises(DataError, match="RPL-3905"):
        convert(of, value)
    assert convert(of, value, rule=OutOfRange.NULL) == [None]
    assert convert(of, value, rule=OutOfRange.CLAMP) == [nearest]


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (kind("bytes"), "A"),
        (kind("bytes"), "A==="),
        (kind("bytes"), "AA=A"),
        (kind("bytes"), "AA==AA=="),
        (kind("bytes"), "A A="),
        (kind("bytes", CONNECT + "Decimal", scale="0", connect_decimal_precision="2"), Decimal(100)),
        (kind("bytes", CONNECT + "Decimal", scale="0", connect_decimal_precision="38"), Decimal(2**200)),
        (kind("bytes", DATA + "Bits", length="2"), b"\x01\x01"),
        (kind("string", TIME + "ZonedTimestamp"), "soon"),
        (kind("int32", TIME + "Year"), 2**31 - 1),
    ],
)
def test_a_value_that_is_not_of_the_type_is_refused(of: ConnectType, value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is Arrow's
        convert(of, value)


def test_quoted_floats_such_as_nan_are_read() -> None:
    found = convert(kind("double"), float("nan"), float("-inf"), -0.0, 5e-324)
    assert [struct.pack(">d", v) for v in found[1:]] == [struct.pack(">d", v) for v in (float("-inf"), -0.0, 5e-324)]
    assert found[0] != found[0]
