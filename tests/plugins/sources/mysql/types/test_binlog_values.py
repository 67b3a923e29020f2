"""The log's packed forms against a second, plain implementation of each, and against Python's own types."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError, NeedsUserError
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.binlog_values import LogColumn
from replicator_source_mysql.types.text_values import TextColumn
from replicator_source_mysql.types.values.out_of_range import ZERO_DATE
from tests.plugins.sources.mysql.types.value_conversion import from_log, from_text, policy, target_of

_WIDTHS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_UNITS = (0, 10_000, 100, 1)


def column(kind: str, charset: str = "") -> ColumnDefinition:
    return ColumnDefinition("v", kind, charset=charset)


# ------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("kind", "code", "shape", "low", "high"),
    [
        ("tinyint", 1, "<b", -(2**7), 2**7 - 1), ("tinyint unsigned", 1, "<B", 0, 2**8 - 1),
        ("smallint", 2, "<h", -(2**15), 2**15 - 1), ("smallint unsigned", 2, "<H", 0, 2**16 - 1),
        ("mediumint", 9, "", -(2**23), 2**23 - 1), ("mediumint unsigned", 9, "", 0, 2**24 - 1),
        ("int", 3, "<i", -(2**31), 2**31 - 1), ("int(10) unsigned zerofill", 3, "<I", 0, 2**32 - 1),
        ("bigint", 8, "<q", -(2**63), 2**63 - 1), ("bigint unsigned", 8, "<Q", 0, 2**64 - 1),
    ],
)  # fmt: skip
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_integers(kind: str, code: int, shape: str, low: int, high: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.none() | st.integers(low, high) | st.sampled_from([low, high]), max_size=9))
    if shape:
        logged = [None if number is None else struct.pack(shape, number) for number in numbers]
    else:
        logged = [None if number is None else (number % 2**24).to_bytes(3, "little") for number in numbers]
    printed = [None if number is None else str(number).encode() for number in numbers]
    assert from_log(column(kind), code, 0, logged).to_pylist() == numbers
    assert from_text(column(kind), printed).to_pylist() == numbers


def _pack_decimal(number: decimal.Decimal, precision: int, scale: int) -> bytes:
    """Groups of nine digits, the odd ones outermost; the first bit reversed, all bits of a negative number."""
    digits = str(abs(int(number.scaleb(scale)))).rjust(precision, "0")
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    odd = len(whole) % 9
    groups = [whole[:odd], *(whole[at : at + 9] for at in range(odd, len(whole), 9))]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    packed = bytearray(b"".join(int(group).to_bytes(_WIDTHS[len(group)], "big") for group in groups if group))
    packed[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in packed) if number < 0 else bytes(packed)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_decimals_of_every_precision_are_exact(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 38)))
    with decimal.localcontext(prec=80):
        largest = 10**precision - 1
        numbers = [
            None if unscaled is None else decimal.Decimal(unscaled).scaleb(-scale)
            for unscaled in data.draw(st.lists(st.none() | st.integers(-largest, largest), max_size=6))
        ]
        kind = column(f"decimal({precision},{scale})")
        packed = [None if number is None else _pack_decimal(number, precision, scale) for number in numbers]
        printed = [None if number is None else f"{number:.{scale}f}" for number in numbers]
        for metadata in (precision | scale << 8, precision << 8 | scale):
            found = from_log(kind, 246, metadata, packed)
            assert found.to_pylist() == (numbers if precision <= 38 else printed)
            assert found.equals(from_text(kind, [None if text is None else text.encode() for text in printed]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=9))
def test_floats_keep_every_bit(numbers: list[float | None]) -> None:
    logged = [None if number is None else struct.pack("<f", number) for number in numbers]
    printed = [None if number is None else repr(number).encode() for number in numbers]
    found = from_log(column("float"), 4, 4, logged)
    assert [None if v is None else struct.pack("<f", v) for v in found.to_pylist()] == logged
    assert found.equals(from_text(column("float"), printed))


# ------------------------------------------------------------ dates and times


def _fraction(microseconds: int, digits: int) -> bytes:
    size = (digits + 1) // 2
    return (microseconds // _UNITS[size]).to_bytes(size, "big") if size else b""


def _cut(microseconds: int, digits: int) -> int:
    unit: int = 10 ** (6 - digits)
    return microseconds - microseconds % unit


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.datetimes(dt.datetime(1, 1, 1)), max_size=9), st.integers(0, 6))
def test_datetimes(moments: list[dt.datetime | None], digits: int) -> None:
    moments = [None if m is None else m.replace(microsecond=_cut(m.microsecond, digits)) for m in moments]
    logged = [None if m is None else _pack_datetime(m) + _fraction(m.microsecond, digits) for m in moments]
    width = 19 + (digits + 1) * bool(digits)
    printed = [None if m is None else m.isoformat(" ", "microseconds")[:width] for m in moments]
    _all_forms(column(f"datetime({digits})"), 18, digits, logged, printed, moments)


def _pack_datetime(moment: dt.datetime) -> bytes:
    packed = (moment.year * 13 + moment.month) << 22 | moment.day << 17 | moment.hour << 12
    return (packed + (moment.minute << 6) + moment.second + 0x8000000000).to_bytes(5, "big")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.datetimes(dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(2106, 2, 7)), max_size=9),
       st.integers(0, 6))  # fmt: skip
def test_timestamps(moments: list[dt.datetime | None], digits: int) -> None:
    instants = [
        None if m is None else m.replace(microsecond=_cut(m.microsecond, digits), tzinfo=dt.UTC) for m in moments
    ]
    logged = [
        None if m is None else int(m.timestamp()).to_bytes(4, "big") + _fraction(m.microsecond, digits)
        for m in instants
    ]
    width = 19 + (digits + 1) * bool(digits)
    printed = [None if m is None else m.replace(tzinfo=None).isoformat(" ", "microseconds")[:width] for m in instants]
    _all_forms(column(f"timestamp({digits})"), 17, digits, logged, printed, instants)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.dates(dt.date(1, 1, 1)), max_size=9))
def test_dates(days: list[dt.date | None]) -> None:
    logged = [None if d is None else (d.year << 9 | d.month << 5 | d.day).to_bytes(3, "little") for d in days]
    _all_forms(column("date"), 10, 0, logged, [None if d is None else d.isoformat() for d in days], days)


def _all_forms(
    kind: ColumnDefinition,
    code: int,
    digits: int,
    logged: list[bytes | None],
    printed: list[str | None],
    values: object,
) -> None:
    text = [None if value is None else value.encode() for value in printed]
    assert from_log(kind, code, digits, logged).to_pylist() == values
    assert from_text(kind, text).to_pylist() == values
    assert from_log(kind, code, digits, logged, policy("text")).to_pylist() == printed
    assert from_text(kind, text, policy("text")).to_pylist() == printed


_LONGEST = (838 * 3600 + 59 * 60 + 59) * 10**6


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.integers(-_LONGEST, _LONGEST) | st.integers(-2_000_000, 2_000_000), max_size=9),
    st.integers(0, 6),
)
def test_times(durations: list[int | None], digits: int) -> None:
    logged: list[bytes | None] = []
    printed: list[str | None] = []
    for duration in durations:
        if duration is None:
            logged.append(None)
            printed.append(None)
            continue
        size = abs(duration) - abs(duration) % 10 ** (6 - digits)
        sign = -1 if duration < 0 and size else 1
        seconds, micros = divmod(size, 10**6)
        hours, minutes, second = seconds // 3600, seconds // 60 % 60, seconds % 60
        packed = sign * ((hours << 12 | minutes << 6 | second) << 24 | micros)
        # As the server stores it: whole and fraction apart, the fraction of a negative value below zero.
        whole, rest = packed >> 24, sign * micros
        width = (digits + 1) // 2
        logged.append(
            (whole + 0x800000).to_bytes(3, "big") + (int(rest / _UNITS[width]) % 256**width).to_bytes(width, "big")
            if 0 < width < 3
            else ((packed + (0x800000 << 24)) >> (24 - 8 * width)).to_bytes(3 + width, "big")
        )
        text = f"{'-' * (sign < 0)}{hours:02d}:{minutes:02d}:{second:02d}"
        printed.append(text + (f".{micros:06d}"[: digits + 1] if digits else ""))
    kind = column(f"time({digits})")
    assert from_log(kind, 19, digits, logged).to_pylist() == printed
    assert from_text(kind, [None if p is None else p.encode() for p in printed]).to_pylist() == printed


def test_zero_dates_are_counted_or_refused() -> None:
    values = [b"\0\0\0", None, (2024 << 9 | 10).to_bytes(3, "little"), (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little")]
    rules = policy("null")
    assert from_log(column("date"), 10, 0, values, rules).to_pylist() == [None, None, None, dt.date(2024, 2, 29)]
    assert rules.replaced == {ZERO_DATE: 2}
    with pytest.raises(DataError, match=r"RPL-3735: column 'v' holds a zero or partial date .*shop\.orders.*zeroDates"):
        from_log(column("date"), 10, 0, values, policy("fail"))


def test_a_zero_timestamp_is_no_moment_of_1970() -> None:
    rules = policy("null")
    values = [bytes(6), b"\0\0\0\0\x00\x01", b"\0\0\0\x01\0\0"]
    found = from_log(column("timestamp(3)"), 17, 3, values, rules)
    assert found.cast(pa.int64()).to_pylist() == [None, 100, 1_000_000]
    assert from_log(column("timestamp(3)"), 17, 3, values, policy("text")).to_pylist()[0] == "0000-00-00 00:00:00.000"


@pytest.mark.parametrize(
    ("text", "nearest"), [(b"2023-02-29", "2023-02-28"), (b"2024-02-30", "2024-02-29"), (b"0000-12-31", "0001-01-01")]
)
def test_dates_that_are_none_are_clamped_to_the_nearest(text: bytes, nearest: str) -> None:
    assert str(from_text(column("date"), [text], policy("null", OutOfRange.CLAMP))[0]) == nearest
    rules = policy("null", OutOfRange.NULL)
    assert from_text(column("date"), [text, b"2024-01-01"], rules).null_count == sum(rules.replaced.values()) == 1
    with pytest.raises(DataError, match="RPL-3736"):
        from_text(column("date"), [text])


# ------------------------------------------------------------ the rest


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=12), max_size=9))
def test_bytes_come_as_they_are_and_empty_is_not_null(values: list[bytes | None]) -> None:
    assert from_log(column("blob"), 252, 2, values).to_pylist() == values
    assert from_text(column("blob"), values).to_pylist() == values
    padded = [None if value is None else value.ljust(12, b"\0") for value in values]
    stripped = [None if value is None else value.rstrip(b"\0") for value in values]
    assert from_log(column("binary(12)"), 254, 12, stripped).to_pylist() == padded
    assert from_text(column("binary(12)"), padded).to_pylist() == padded


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 64), st.data())
def test_sets_of_any_size(size: int, data: st.DataObject) -> None:
    members = [f"m{rank}" for rank in range(size)]
    kind = column("set(" + ",".join(f"'{member}'" for member in members) + ")")
    width = next(width for width in (1, 2, 3, 4, 8) if size <= 8 * width)
    masks = data.draw(st.lists(st.none() | st.integers(0, 2**size - 1), max_size=6))
    logged = [None if mask is None else mask.to_bytes(width, "little") for mask in masks]
    expected = [
        None if mask is None else ",".join(member for rank, member in enumerate(members) if mask >> rank & 1)
        for mask in masks
    ]
    assert from_log(kind, 248, width, logged).to_pylist() == expected


def test_mariadbs_json_is_text_in_the_log_too() -> None:
    values = [b'{"b": 1,\n "a": "\xc3\xa9"}', None]
    assert from_log(column("json"), 252, 4, values).equals(from_text(column("json"), values))
    with pytest.raises(DataError, match="RPL-3733"):
        from_log(column("json"), 252, 4, [b"\xff"])


def test_an_enum_of_more_than_255_members_and_its_refused_value() -> None:
    kind = column("enum(" + ",".join(f"'m{rank}'" for rank in range(1, 301)) + ")")
    logged = [b"\x00\x00", b"\x01\x00", b"\x2c\x01", None]
    assert from_log(kind, 247, 2, logged).to_pylist() == ["", "m1", "m300", None]


@pytest.mark.parametrize(
    ("kind", "code", "value"),
    [("enum('a','b')", 247, b"\x03"), ("set('a','b')", 248, b"\x04"), ("enum('a')", 247, b"\xff\xff")],
)
def test_a_member_that_does_not_exist_is_an_error(kind: str, code: int, value: bytes) -> None:
    with pytest.raises(DataError, match=r"RPL-3737.*not the known one.*replicator reset"):
        from_log(column(kind), code, 1, [value])


@pytest.mark.parametrize(
    ("kind", "code", "value"),
    [
        ("int", 3, b"abc"), ("mediumint", 9, b"ab"), ("double", 5, b"abcd"), ("datetime(6)", 18, b"12345"), ("date", 10, b"1"),
        ("decimal(10,2)", 246, b"ab"), ("binary(2)", 254, b"abc"), ("vector(3)", 242, b"abcde"), ("uuid", 254, b"a" * 17),
        ("blob", 140, b"\x80secret"), ("blob", 140, b"\x70secret"), ("bit(1)", 16, b"ab"),
    ],
)  # fmt: skip
def test_a_value_of_another_width_is_an_error_that_keeps_it_to_itself(kind: str, code: int, value: bytes) -> None:
    with pytest.raises(DataError, match="RPL-3734") as caught:
        from_log(column(kind), code, 6 if code == 18 else 10 | 2 << 8, [None, value])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", b"secret"),
        ("decimal(4,2)", b"secret"),
        ("datetime", b"secret"),
        ("date", b"2024-0x-01"),
        ("double", b"secret"),
    ],
)
def test_text_that_is_no_value_is_an_error_that_keeps_it_to_itself(kind: str, value: bytes) -> None:
    with pytest.raises(DataError, match=r"RPL-3734.*'v'.*shop\.orders") as caught:
        from_text(column(kind), [value])
    assert "secret" not in str(caught.value)


def test_a_fraction_in_mariadbs_own_old_form_is_refused() -> None:
    kind = column("datetime(3) /* mariadb-5.3 */")
    with pytest.raises(NeedsUserError, match=r"RPL-3740.*'v'.*shop\.orders.*FORCE"):
        LogColumn(kind, 12, 0, target_of(kind, policy()), policy())


_KINDS = {
    "int": 3, "bigint unsigned": 8, "float": 4, "decimal(5,2)": 246, "decimal(50,2)": 246, "date": 10, "datetime": 18,
    "timestamp": 17, "time": 19, "year": 13, "bit(1)": 16, "enum('a')": 247, "set('a')": 248, "text": 252, "binary(3)": 254,
    "json": 245, "point": 255, "vector(2)": 242, "uuid": 254, "inet4": 254, "inet6": 254,
}  # fmt: skip


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1", "gbk", "utf16"])
@pytest.mark.parametrize("kind", _KINDS)
def test_no_rows_and_only_nulls_are_columns_too(kind: str, charset: str) -> None:
    definition = column(kind, charset)
    for values in ([], [None], [None, None, None]):
        assert from_log(definition, _KINDS[kind], 5 | 2 << 8 if "decimal" in kind else 0, values).to_pylist() == values
        assert from_text(definition, values).to_pylist() == values


@pytest.mark.parametrize(
    ("kind", "charset", "expression"),
    [
        ("int", "", "`v`"), ("float", "", "`v` * 1e0"), ("double(9,2)", "", "`v` * 1e0"), ("text", "utf8mb4", "`v`"),
        ("text", "latin1", "CAST(`v` AS BINARY)"), ("enum('a')", "latin1", "`v`"),
    ],
)  # fmt: skip
def test_the_expression_in_the_select_list(kind: str, charset: str, expression: str) -> None:
    definition = column(kind, charset)
    assert TextColumn(definition, target_of(definition, policy()), policy()).expression == expression


def test_a_name_is_quoted() -> None:
    definition = ColumnDefinition("odd `name", "int")
    assert TextColumn(definition, target_of(definition, policy()), policy()).expression == "`odd ``name`"


@pytest.mark.parametrize("make", [lambda *a: LogColumn(a[0], 3, 0, *a[1:]), TextColumn])
def test_columns_travel_to_executors(make: Callable[..., LogColumn | TextColumn]) -> None:
    definition = column("int")
    before = make(definition, target_of(definition, policy()), policy())
    after = pickle.loads(pickle.dumps(before))
    assert after.target == before.target
    if isinstance(after, LogColumn):
        found = after.convert(np.array([1, 0, 0, 0], np.uint8), np.array([0]), np.array([4]), np.array([True]))
        assert found.to_pylist() == [1]
