"""Values, types and policies: what SQLite holds arrives exactly, or the policy decides, and says so."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replicator_sdk import Column, OutOfRange, TableId, TableSchema
from replicator_sdk.datatype import INT64, DataType
from replicator_sdk.errors import DataError
from replicator_source_sqlite.types.decode import Decoder
from replicator_source_sqlite.types.mapping import standard_type


def decoder(declared: str, policy: OutOfRange = OutOfRange.FAIL, *, key: bool = False) -> tuple[Decoder, Column]:
    column = Column("c", standard_type(declared), True, declared)
    schema = TableSchema(TableId("main", "t"), (column,), ("c",) if key else ())
    return Decoder(schema, policy), column


def decode(declared: str, values: list[Any], policy: OutOfRange = OutOfRange.FAIL) -> list[Any]:
    made, column = decoder(declared, policy)
    array = made.column(column, values)
    assert array.type == column.type.arrow
    found: list[Any] = array.to_pylist()
    return found


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("INTEGER", "int64"),
        ("unsigned big int", "int64"),
        ("POINT", "int64"),  # by SQLite's own affinity rules
        ("VARCHAR(20)", "string"),
        ("NATIVE CHARACTER(70)", "string"),
        ("CLOB", "string"),
        ("", "string"),
        ("ANY", "string"),
        ("NUMERIC", "string"),
        ("BLOB", "binary"),
        ("DOUBLE PRECISION", "float64"),
        ("float(10, 2)", "float64"),
        ("boolean", "bool"),
        ("Date", "date"),
        ("DATETIME", "timestamp"),
        ("timestamp(6)", "timestamp"),
        ("TIME", "time"),
        ("json", "json"),
        ("uuid", "uuid"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("NUMERIC ( 38 , 10 )", "decimal(38,10)"),
        ("decimal(5)", "decimal(5,0)"),
        ("decimal(39,2)", "string"),
        ("decimal(2,5)", "string"),
    ],
)
def test_declared_types_follow_names_and_then_affinity(declared: str, name: str) -> None:
    assert str(standard_type(declared)) == name


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("INT", [2**63 - 1, -(2**63), None, 2.0], [2**63 - 1, -(2**63), None, 2]),
        ("REAL", [1, 0.1, float("inf"), None], [1.0, 0.1, float("inf"), None]),
        ("BOOLEAN", [0, 1, None], [False, True, None]),
        ("TEXT", ["a\0b", "", None, "😀"], ["a\0b", "", None, "😀"]),
        ("", ["a", 1, 2.5, None], ["a", "1", "2.5", None]),
        ("BLOB", [b"", b"\0\xff", None], [b"", b"\0\xff", None]),
        (
            "DECIMAL(10,2)",
            [1, 0.1 + 0.2, "3.50", 12.34],
            [Number("1.00"), Number("0.30"), Number("3.50"), Number("12.34")],
        ),
        (
            "DATE",
            ["2024-02-29", "0001-01-01", "2024-01-02 00:00:00"],
            [date(2024, 2, 29), date(1, 1, 1), date(2024, 1, 2)],
        ),
        ("DATETIME", ["2024-01-02", "2024-01-02T03:04"], [datetime(2024, 1, 2), datetime(2024, 1, 2, 3, 4)]),
        (
            "DATETIME",
            ["2024-01-02 03:04:05+02:00", "2024-01-02 03:04:05Z"],
            [datetime(2024, 1, 2, 1, 4, 5), datetime(2024, 1, 2, 3, 4, 5)],
        ),
        ("DATETIME", ["2024-01-02 03:04:05.1234560"], [datetime(2024, 1, 2, 3, 4, 5, 123456)]),
        ("TIME", ["23:59:59.999999", "01:02"], [time(23, 59, 59, 999999), time(1, 2)]),
        (
            "UUID",
            ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", bytes(16)],
            ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
        ),
    ],
)
def test_values_that_fit_arrive_exactly(declared: str, values: list[Any], expected: list[Any]) -> None:
    assert decode(declared, values) == expected


@pytest.mark.parametrize(
    ("declared", "value", "clamped"),
    [
        ("INT", "qqq", None),
        ("INT", 1.5, 2),
        ("INT", 1e300, 2**63 - 1),
        ("INT", float("-inf"), -(2**63)),
        ("REAL", "qqq", None),
        ("REAL", 2**53 + 1, float(2**53)),
        ("BOOLEAN", 2, True),
        ("BOOLEAN", "true", None),
        ("TEXT", b"bytes", None),
        ("TEXT", "bad \udcff", "bad \ufffd"),
        ("BLOB", "text", None),
        ("DECIMAL(4,2)", 1000, Number("99.99")),
        ("DECIMAL(4,2)", "-1e9", Number("-99.99")),
        ("DECIMAL(4,2)", 1.005, Number("1.00")),
        ("DECIMAL(4,2)", "99.999", Number("99.99")),
        ("DECIMAL(4,2)", "abc", None),
        ("DECIMAL(4,2)", "NaN", None),
        ("DECIMAL(4,2)", float("inf"), Number("99.99")),
        ("DATE", "2023-02-29", None),
        ("DATE", "2023-02-03 04:05:06", date(2023, 2, 3)),
        ("DATE", 2460000.5, None),
        ("DATETIME", "10000-01-01 00:00:00", None),
        ("DATETIME", "0001-01-01 00:00:00+02:00", None),
        ("DATETIME", 1700000000, None),
        ("DATETIME", "2024-01-02 03:04:05.1234567", datetime(2024, 1, 2, 3, 4, 5, 123456)),
        ("TIME", "24:00:00", None),
        ("UUID", "no uuid", None),
        ("UUID", b"short", None),
    ],
)
def test_a_value_that_does_not_fit_follows_the_policy(declared: str, value: Any, clamped: Any) -> None:
    with pytest.raises(DataError, match="RPL-3510") as caught:
        decode(declared, [None, value])
    assert str(value) not in str(caught.value)
    assert "'c'" in str(caught.value)
    assert "main.t" in str(caught.value)
    for policy, expected in ((OutOfRange.NULL, None), (OutOfRange.CLAMP, clamped)):
        made, column = decoder(declared, policy)
        assert made.column(column, [None, value]).to_pylist() == [None, expected]
        assert made.replaced.total() == 1


def test_a_key_that_does_not_fit_fails_under_every_policy() -> None:
    """Two rows must not become one by clamping."""
    for policy in OutOfRange:
        made, column = decoder("INT", policy, key=True)
        with pytest.raises(DataError):
            made.column(column, ["x"])


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary())))
def test_any_column_of_values_is_converted_without_invented_values(values: list[Any]) -> None:
    """Under CLAMP every value of any kind goes into a column of any type; NULL stays NULL."""
    for declared in (
        "INT",
        "REAL",
        "TEXT",
        "BLOB",
        "BOOLEAN",
        "DECIMAL(10,2)",
        "DATE",
        "TIME",
        "DATETIME",
        "UUID",
        "JSON",
    ):
        found = decode(declared, values, OutOfRange.CLAMP)
        assert len(found) == len(values)
        assert all(out is None for out, value in zip(found, values, strict=True) if value is None)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_whole_columns_and_single_values_agree(values: list[int | None]) -> None:
    """The fast way for a whole column and the slow way by value give the same."""
    made, column = decoder("INT")
    whole = made.column(column, values)
    single = pa.array([made._value(column, value) for value in values], column.type.arrow)
    assert whole.equals(single)


@given(st.lists(st.one_of(st.none(), st.integers(-(10**7), 10**7), st.floats(-1e7, 1e7).map(lambda x: round(x, 2)))))
def test_whole_columns_and_single_values_of_decimals_agree(values: list[Any]) -> None:
    made, column = decoder("DECIMAL(12,2)")
    whole = made.column(column, values)
    single = pa.array([made._value(column, value) for value in values], column.type.arrow)
    assert whole.equals(single)


@example(2.655624237435156e-224)
@given(st.one_of(st.integers(), st.floats()))
def test_a_whole_column_takes_no_decimal_that_a_single_value_refuses(value: float) -> None:
    """What does not fit exactly is clamped and counted, and never rounded in silence."""
    made, column = decoder("DECIMAL(6,2)", OutOfRange.CLAMP)
    found = made.column(column, [value])[0].as_py()
    exact = value == value and abs(value) < 10**4 and Number(f"{value:.15g}") == round(Number(f"{value:.15g}"), 2)
    assert made.replaced.total() == (0 if exact else 1)
    assert not exact or found == Number(f"{value:.15g}")


def test_every_standard_type_of_a_declared_one_is_known_to_the_decoder() -> None:
    kinds: list[DataType] = [
        standard_type(t) for t in ("INT", "", "BLOB", "REAL", "DATE", "TIME", "DATETIME", "UUID", "JSON")
    ]
    for kind in kinds:
        made, _ = decoder("")
        assert made.column(Column("c", kind), [None]).null_count == 1


def test_values_that_do_not_fit_are_marked_but_for_a_keys() -> None:
    schema = TableSchema(TableId("main", "t"), (Column("id", INT64), Column("n", INT64)), ("id",))
    rows, refused = Decoder(schema, OutOfRange.FAIL).marked_struct([(1, 2, 3), (7, "x", None)], 3)
    assert rows.field("n").to_pylist() == [7, None, None]
    assert {name: (r.indexes.tolist(), r.code) for name, r in refused.items()} == {"n": ([1], "RPL-3510")}
    assert Decoder(schema, OutOfRange.NULL).marked_struct([(1,), ("x",)], 1)[1] == {}
    with pytest.raises(DataError, match="RPL-3510"):
        Decoder(schema, OutOfRange.FAIL).marked_struct([("x",), (1,)], 1)
