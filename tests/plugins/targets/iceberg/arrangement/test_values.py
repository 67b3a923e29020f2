"""Partition values and sort orders are Iceberg's: compared with pyiceberg's transforms, value by value."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from replicator_target_iceberg.arrangement.partitioning import Partition, Partitioning
from replicator_target_iceberg.arrangement.sorting import SortField, Sorting
from replicator_target_iceberg.arrangement.terms import PartitionTerm, partition_terms, sort_terms
from replicator_target_iceberg.arrangement.transforms import Transform
from replicator_target_iceberg.schema.types import FIELD_ID

_CHANCE = random.Random(63)
_EPOCH = datetime(1970, 1, 1)
_TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "ü😀ßx", "it's", "x" * 4000, *("y" * n for n in range(40))]
_LONGS = [
    0,
    1,
    -1,
    34,
    2**31,
    2**63 - 1,
    -(2**63) + 20,
    *(_CHANCE.randint(-(2**63) + 20, 2**63 - 1) for _ in range(50)),
]
_INTS = [0, 1, -1, 34, 2**31 - 1, -(2**31) + 20, *(_CHANCE.randint(-(10**6), 10**6) for _ in range(50))]
_MOMENTS = [0, -1, 1, 86_400_000_000, -86_400_000_001, *(_CHANCE.randint(-6 * 10**16, 2 * 10**17) for _ in range(80))]
_DAYS = [0, -1, 1, 31, -366, *(_CHANCE.randint(-700_000, 2_900_000) for _ in range(80))]
_DECIMALS = [
    0,
    1,
    -1,
    127,
    128,
    -128,
    -129,
    255,
    256,
    10**20,
    -(10**20),
    *(_CHANCE.randint(-(10**12), 10**12) for _ in range(40)),
]

# Type → the values as pyiceberg takes them, and as Arrow has them.
_KINDS: dict[str, tuple[IcebergType, list[Any], pa.Array]] = {
    "long": (LongType(), _LONGS, pa.array(_LONGS, pa.int64())),
    "int": (IntegerType(), _INTS, pa.array(_INTS, pa.int32())),
    "string": (StringType(), _TEXTS, pa.array(_TEXTS)),
    "binary": (BinaryType(), [t.encode() for t in _TEXTS], pa.array([t.encode() for t in _TEXTS], pa.binary())),
    "timestamp": (TimestampType(), _MOMENTS, pa.array(_MOMENTS, pa.int64()).cast(pa.timestamp("us"))),
    "timestamptz": (TimestampType(), _MOMENTS, pa.array(_MOMENTS, pa.int64()).cast(pa.timestamp("us", "UTC"))),
    "date": (DateType(), _DAYS, pa.array(_DAYS, pa.int32()).cast(pa.date32())),
    "decimal(38, 2)": (
        DecimalType(38, 2),
        [Decimal(n).scaleb(-2) for n in _DECIMALS],
        pa.array([Decimal(n).scaleb(-2) for n in _DECIMALS], pa.decimal128(38, 2)),
    ),
}


def cases() -> list[tuple[str, str]]:
    texts = ("bucket[1]", "bucket[16]", "bucket[1000003]", "truncate[4]", "year", "month", "day", "hour")
    return [(t, k) for t in texts for k in _KINDS if (made := Transform.parse(t)) is not None and made.takes(k)]


def test_values_of_partitions_are_those_that_pyiceberg_computes() -> None:
    """In slices with NULLs, as they come; each value alone is no test of columns."""
    assert len(cases()) > 30
    for text, name in cases():
        kind, values, array = _KINDS[name]
        transform = Transform.parse(text)
        assert transform is not None
        theirs = parse_transform(text).transform(kind)
        mixed = pa.concat_arrays([array[:3], pa.nulls(2, array.type), array[3:]])
        found = transform.apply(mixed.slice(1))
        plain = found.cast(pa.int32()).to_pylist() if pa.types.is_date(found.type) else found.to_pylist()
        expected = [theirs(v) for v in values]
        assert plain == [*expected[1:3], None, None, *expected[3:]], (text, name)


def test_what_iceberg_does_not_transform_is_refused() -> None:
    refused = [("hour", "date"), ("year", "string"), ("bucket[2]", "boolean"), ("bucket[2]", "double")]
    refused += [("truncate[2]", "date"), ("identity", "double"), ("identity", "binary"), ("day", "long")]
    for text, kind in refused:
        transform = Transform.parse(text)
        assert transform is not None
        assert not transform.takes(kind), (text, kind)
    assert Transform.parse("bucket") is None
    assert Transform.parse("zorder[2]") is None


def table(**columns: pa.Array) -> pa.Table:
    fields = [
        pa.field(name, values.type, metadata={FIELD_ID: str(place).encode()})
        for place, (name, values) in enumerate(columns.items(), 1)
    ]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def spec(*transforms: tuple[str, int]) -> Partitioning:
    fields = [
        {"field-id": 1000 + place, "name": f"f{place}", "source-id": source, "transform": text}
        for place, (text, source) in enumerate(transforms)
    ]
    return Partitioning.of({"spec-id": 3, "fields": fields})


def test_rows_are_split_by_all_fields_and_keep_their_order() -> None:
    rows = table(
        place=pa.array(["a", None, "a", "b", None]),
        at=pa.array([date(2024, 1, d) for d in (1, 1, 1, 2, 2)]),
        n=pa.array(range(5)),
    )
    found = {p: part.column("n").to_pylist() for p, part in spec(("identity", 1), ("day", 2)).split(rows)}
    assert found == {
        Partition(3, ("a", "2024-01-01")): [0, 2],
        Partition(3, (None, "2024-01-01")): [1],
        Partition(3, ("b", "2024-01-02")): [3],
        Partition(3, (None, "2024-01-02")): [4],
    }


def test_values_of_partitions_are_in_iceberg_s_json_form() -> None:
    moment = _EPOCH + timedelta(days=20_000, microseconds=5)
    rows = table(
        t=pa.array([moment], pa.timestamp("us")),
        z=pa.array([moment], pa.timestamp("us", "UTC")),
        d=pa.array([Decimal("0.0000001")], pa.decimal128(20, 7)),
        b=pa.array([True]),
    )
    [(found, _)] = spec(("identity", 1), ("identity", 2), ("identity", 3), ("identity", 4), ("void", 1)).split(rows)
    assert found.values == ("2024-10-04T00:00:00.000005", "2024-10-04T00:00:00.000005+00:00", "0.0000001", True, None)


def test_a_key_is_looked_for_only_in_partitions_that_may_hold_it() -> None:
    keys = table(place=pa.array(["a", None]), at=pa.array([date(2024, 1, 1), date(2024, 1, 5)]))
    by = spec(("identity", 1), ("day", 2), ("bucket[4]", 9))
    there = [
        ("a", "2024-01-01", 0),
        ("b", "2024-01-01", 0),
        (None, "2024-01-05", 2),
        ("a", "2024-01-02", 1),
        ("a", None, 0),
    ]
    found = by.that_may_hold(keys, [Partition(3, values) for values in there])
    assert found.tolist() == [True, False, True, False, False]


def test_rows_are_sorted_with_null_where_each_column_has_it() -> None:
    rows = table(a=pa.array([2, None, 1, 2, None]), b=pa.array(["x", "y", None, None, "z"]), n=pa.array(range(5)))
    first = Sorting(1, (SortField(1, "identity", False, True), SortField(2, "identity", True, False)))
    assert first.sorted(rows).column("n").to_pylist() == [4, 1, 2, 0, 3]
    last = Sorting(1, (SortField(1, "identity", True, False), SortField(2, "identity", False, True)))
    assert last.sorted(rows).column("n").to_pylist() == [3, 0, 2, 1, 4]


def test_an_order_that_files_cannot_have_is_none() -> None:
    by_double = Sorting(1, (SortField(1, "identity", False, True),))
    assert by_double.if_writable([{"id": 1, "type": "double"}]) == Sorting()
    assert by_double.if_writable([{"id": 1, "type": "long"}]) == by_double


def test_terms_are_read_as_they_are_written() -> None:
    assert partition_terms(["region", " BUCKET(16, a b)", "truncate( 4,name )", "Day(at)"]) == (
        PartitionTerm("identity", "region"),
        PartitionTerm("bucket[16]", "a b"),
        PartitionTerm("truncate[4]", "name"),
        PartitionTerm("day", "at"),
    )
    found = [
        (t.column, t.direction, t.nulls) for t in sort_terms(["a", "b DESC", "c d asc nulls last", "e nulls last"])
    ]
    assert found == [
        ("a", "asc", "nulls-first"),
        ("b", "desc", "nulls-last"),
        ("c d", "asc", "nulls-last"),
        ("e", "asc", "nulls-last"),
    ]


@pytest.mark.parametrize(
    "texts", [["zorder(a)"], ["bucket(a)"], ["bucket(0, a)"], [""], ["a", "a"], ["day(a)", "hour(a)"]]
)
def test_terms_that_mean_nothing_are_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"partition transform|at least 1"):
        partition_terms(texts)
