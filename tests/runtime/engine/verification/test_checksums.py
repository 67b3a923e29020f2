"""Checksums see every difference of values, and none of order; whole tables and single keys."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.verification.checksums import (
    among,
    bucket_sums,
    differing_keys,
    hashed,
    values_of,
    within,
)
from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INSTANT,
    INT8,
    INT64,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Record,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES = {
    "text": STRING,
    "more": STRING,
    "flag": BOOL,
    "small": INT8,
    "money": Decimal(38, 9),
    "ratio": FLOAT64,
    "bytes": BINARY,
    "day": DATE,
    "naive": TIMESTAMP,
    "at": INSTANT,
    "list": Array(STRING),
    "lists": Array(Array(INT64)),
    "record": Record((("a", STRING), ("b", Array(INT64)))),
}
TABLE = TableId("shop", "things", "public")
SCHEMA = TableSchema(TABLE, (Column("id", INT64), *(Column(name, kind) for name, kind in _TYPES.items())), ("id",))
_UTC = dt.UTC
_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 1)
PAIRS: list[tuple[str, Any, Any]] = [
    ("text", "a", "a "),
    ("text", "", None),
    ("text", "a", "A"),
    ("flag", False, None),
    ("small", 0, None),
    ("money", decimal.Decimal("0.000000001"), decimal.Decimal(0)),
    (
        "money",
        decimal.Decimal("12345678901234567890123456789.123456789"),
        decimal.Decimal("12345678901234567890123456789.123456788"),
    ),
    ("ratio", 0.1, math.nextafter(0.1, 1)),
    ("ratio", math.nan, None),
    ("ratio", math.inf, -math.inf),
    ("bytes", b"\x00", b"\x00\x00"),
    ("bytes", b"", None),
    ("day", dt.date(1, 1, 1), dt.date(1, 1, 2)),
    ("naive", _NOON, _NOON.replace(microsecond=2)),
    ("at", _NOON.replace(tzinfo=_UTC), _NOON.replace(microsecond=2, tzinfo=_UTC)),
    ("list", ["a", None], [None, "a"]),
    ("list", ["a", None], ["a"]),
    ("list", [], None),
    ("list", [], [None]),
    ("list", ["a", "b"], ["b", "a"]),
    ("lists", [[1], []], [[], [1]]),
    ("lists", [[1, 2]], [[1], [2]]),
    ("lists", [None], [[]]),
    ("record", {"a": None, "b": [1]}, {"a": "1", "b": None}),
    ("record", {"a": None, "b": None}, None),
]


def frame(spark: SparkSession, rows: list[dict[str, Any]], schema: TableSchema = SCHEMA) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    types = from_arrow_schema(schema.arrow, prefer_timestamp_ntz=True)
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], types)


def hashes(spark: SparkSession, rows: list[dict[str, Any]], schema: TableSchema = SCHEMA) -> list[tuple[int, ...]]:
    return [tuple(row)[:4] for row in hashed(frame(spark, rows, schema), schema).collect()]


def test_rows_that_differ_in_one_value_have_different_hashes(spark: SparkSession) -> None:
    rows = [{"id": 1, name: value} for name, *values in PAIRS for value in values]
    found = hashes(spark, rows)
    for (name, left, right), a, b in zip(PAIRS, found[::2], found[1::2], strict=True):
        assert a[:2] == b[:2]
        assert a[2] != b[2], (name, left, right)
        assert a[3] != b[3], (name, left, right)


def test_a_value_in_another_column_makes_another_hash(spark: SparkSession) -> None:
    left, right = hashes(spark, [{"id": 1, "text": "a"}, {"id": 1, "more": "a"}])
    assert left[2] != right[2]
    assert left[3] != right[3]


def test_values_that_compare_as_equal_have_one_hash(spark: SparkSession) -> None:
    rows = [{"id": 1, "ratio": value} for value in (0.0, -0.0)] + [
        {"id": 2, "ratio": value} for value in (math.nan, -math.nan)
    ]
    found = hashes(spark, rows)
    assert found[0] == found[1]
    assert found[2] == found[3]


def test_sums_do_not_depend_on_the_order_and_count_equal_rows(spark: SparkSession) -> None:
    rows = [{"id": number, "text": f"t{number}"} for number in range(300)]
    sums = bucket_sums(hashed(frame(spark, rows), SCHEMA))
    turned = bucket_sums(hashed(frame(spark, rows[::-1]), SCHEMA))
    doubled = bucket_sums(hashed(frame(spark, [*rows, rows[7]]), SCHEMA))
    assert sums.rows == 300
    assert sums.differing(turned) == []
    assert len(sums.differing(doubled)) == 1
    assert bucket_sums(hashed(frame(spark, []), SCHEMA)).differing(sums) == sorted(sums.buckets)


def test_two_rows_that_exchanged_their_values_are_found(spark: SparkSession) -> None:
    one = [{"id": 1, "text": "a", "more": "b"}, {"id": 2, "text": "b", "more": "a"}]
    other = [{"id": 1, "text": "b", "more": "a"}, {"id": 2, "text": "a", "more": "b"}]
    sums = [bucket_sums(hashed(frame(spark, rows), SCHEMA)) for rows in (one, other)]
    assert len(sums[0].differing(sums[1])) == 2


def found(spark: SparkSession, source: list[dict[str, Any]], target: list[dict[str, Any]], **options: Any) -> Any:
    schema = options.pop("schema", SCHEMA)
    sides = [hashed(frame(spark, rows, schema), schema) for rows in (source, target)]
    sums = [bucket_sums(side) for side in sides]
    parts = [within(side, sums[0].differing(sums[1])) for side in sides]
    return differing_keys(*parts, keyed=bool(schema.primary_key), at_most=options.pop("at_most", 100), **options)


def totals(observed: Any) -> dict[str, int]:
    return {name: int(observed[name].sum()) for name in ("missing", "surplus", "different") if observed[name].sum()}


def test_missing_surplus_and_different_rows_are_counted_by_key(spark: SparkSession) -> None:
    source = [{"id": number, "text": f"t{number}"} for number in range(20)]
    target = [
        *source[3:],  # three are missing
        source[10],  # one is doubled
        {"id": 99, "text": "surplus"},
    ]
    target[2] = {"id": source[5]["id"], "text": "other"}
    observed = found(spark, source, target)
    assert totals(observed) == {"missing": 3, "surplus": 2, "different": 1}
    assert len(observed) == 6


def test_what_the_pipeline_leaves_out_is_not_counted(spark: SparkSession) -> None:
    source = [{"id": number} for number in range(5)]
    assert totals(found(spark, source[:3], source, ignored={"surplus"})) == {}
    assert totals(found(spark, source[1:], source[:3], ignored={"surplus"})) == {"missing": 2}


def test_keys_with_null_are_keys(spark: SparkSession) -> None:
    schema = TableSchema(TABLE, (Column("a", INT64), Column("b", INT64), Column("c", STRING)), ("a", "b"))
    source: list[dict[str, Any]] = [
        {"a": 1, "b": None, "c": "x"},
        {"a": None, "b": 1, "c": "x"},
        {"a": None, "b": None, "c": "x"},
    ]
    target = [{"a": 1, "b": None, "c": "y"}, source[1], source[2]]
    assert totals(found(spark, source, target, schema=schema)) == {"different": 1}
    assert len({row[:2] for row in hashes(spark, source, schema)}) == 3


def test_rows_without_a_key_are_compared_as_a_bag(spark: SparkSession) -> None:
    schema = TableSchema(TABLE, (Column("a", INT64), Column("b", STRING)))
    row = {"a": 1, "b": None}
    observed = found(spark, [row] * 3 + [{"a": 2}], [row] * 5, schema=schema)
    assert totals(observed) == {"missing": 1, "surplus": 2}
    assert not observed["versioned"].any()


def test_a_row_that_was_written_again_is_in_another_state(spark: SparkSession) -> None:
    from pyspark.sql import functions as sql

    source = hashed(frame(spark, [{"id": 1, "text": "a"}]), SCHEMA)
    rows = frame(spark, [{"id": 1, "text": "b"}])
    states = []
    for version in (1, 1, 2):
        target = hashed(rows.withColumn("written", sql.lit(version).cast("long")), SCHEMA)
        observed = differing_keys(source, target, keyed=True, at_most=10)
        assert observed["versioned"].all()
        states.append(int(observed["state"][0]))
    assert states[0] == states[1] != states[2]
    unknown = differing_keys(source, hashed(rows, SCHEMA), keyed=True, at_most=10)
    assert not unknown["versioned"].any()


def test_no_more_keys_are_returned_than_asked_for_and_one(spark: SparkSession) -> None:
    assert len(found(spark, [{"id": number} for number in range(9)], [], at_most=3)) == 4


def test_keys_are_found_again_by_their_hashes(spark: SparkSession) -> None:
    rows = frame(spark, [{"id": number, "text": f"t{number}"} for number in range(50)])
    observed = found(spark, [{"id": 4}, {"id": 5}], [])
    values = [value for _, value in values_of(rows, SCHEMA, [0, 1], observed, spark)]
    assert sorted(values) == [(4, "t4"), (5, "t5")]


@pytest.mark.parametrize("count", [0, 1])
def test_rows_are_chosen_by_their_keys(spark: SparkSession, count: int) -> None:
    all_rows = hashed(frame(spark, [{"id": number} for number in range(50)]), SCHEMA)
    keys = found(spark, [{"id": 7}], [])[:count]
    chosen = among(all_rows, keys, spark).collect()
    assert [row.k1 for row in chosen] == keys["k1"].tolist()


def test_an_empty_part_has_no_difference(spark: SparkSession) -> None:
    nothing = hashed(frame(spark, []), SCHEMA)
    assert len(differing_keys(nothing, nothing, keyed=True, at_most=1)) == 0
