"""Readers of a merge-on-read table get the latest row of each primary key, and no deleted one."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replicator_sdk.merge_on_read import MergeOnReadDefinition, latest_rows, view_sql

Rows = list[tuple[Any, ...]]
SEED = MergeOnReadDefinition(("order_id",), ("ts",), "deleted")


def read(spark: SparkSession, folder: Path, rows: Rows, schema: str, definition: MergeOnReadDefinition) -> Rows:
    """What both readers give of plain Parquet files; they must agree."""
    spark.createDataFrame(rows, schema).repartition(2).write.mode("overwrite").parquet(str(folder))
    table = spark.read.parquet(str(folder))
    function = sorted(map(repr, map(tuple, latest_rows(table, definition).collect())))
    spark.sql("DROP VIEW IF EXISTS latest_of_seed_2")
    spark.sql(view_sql(("latest_of_seed_2",), ("parquet", str(folder)), dict(table.dtypes), definition))
    shown = [tuple(row) for row in spark.table("latest_of_seed_2").collect()]
    spark.sql("DROP VIEW latest_of_seed_2")
    assert sorted(map(repr, shown)) == function
    return shown


def test_order_1_of_the_seed_is_read_as_its_row_of_200(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("1", 100, None), ("1", 200, None)]
    assert read(spark, tmp_path, rows, "order_id string, ts long, deleted boolean", SEED) == [("1", 200, None)]


def test_order_2_of_the_seed_is_deleted(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("2", 100, None), ("2", 200, True)]
    assert read(spark, tmp_path, rows, "order_id string, ts long, deleted boolean", SEED) == []


@pytest.mark.parametrize(
    ("kind", "value", "deleted", "kept"),
    [
        ("boolean", None, True, False),
        ("string", "it's \\ ${x}", "it's \\ ${x}", "no"),
        ("string", None, "", None),
        ("int", None, 0, None),
    ],
)
def test_a_tombstone_is_what_the_seed_says(
    spark: SparkSession, tmp_path: Path, kind: str, value: str | None, deleted: Any, kept: Any
) -> None:
    definition = MergeOnReadDefinition(("k",), ("w",), "gone", value)
    rows: Rows = [(1, 1, None), (1, 2, deleted), (2, 1, deleted), (2, 2, kept)]
    assert read(spark, tmp_path, rows, f"k int, w int, gone {kind}", definition) == [(2, 2, kept)]


LARGER: dict[str, tuple[Any, Any]] = {
    "boolean": (False, True),
    "decimal(10,2)": (Decimal("-1.50"), Decimal("-1.05")),
    "date": (date(1969, 12, 31), date(1970, 1, 1)),
    "timestamp": (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    "timestamp_ntz": (datetime(1, 1, 1), datetime(1, 1, 1, microsecond=1)),
    "binary": (b"\x7f\xff", b"\x80"),
    "float": (math.inf, math.nan),
    "string": ("Z", "a"),
}
"""Of each type a watermark and a larger one."""


def test_a_watermark_is_of_any_primitive_type_and_smallest_without_a_value(spark: SparkSession) -> None:
    columns = [f"w{number}" for number in range(len(LARGER))]
    schema = ", ".join(["k int", "n string", *map(" ".join, zip(columns, LARGER, strict=True))])
    smaller, larger = (tuple(pair[place] for pair in LARGER.values()) for place in (0, 1))
    nothing = (None,) * len(LARGER)
    rows: Rows = [(1, "larger", *larger), (1, "smaller", *smaller), (2, "smaller", *smaller), (2, "none", *nothing)]
    table = spark.createDataFrame(rows, schema)
    chosen = [latest_rows(table, MergeOnReadDefinition(("k",), (column,))).select("k", "n") for column in columns]
    found = reduce(DataFrame.unionAll, chosen).collect()
    assert sorted(map(tuple, found)) == [(1, "larger")] * len(columns) + [(2, "smaller")] * len(columns)


def oracle(rows: Rows) -> Rows:
    """Columns: key, two watermarks, deleted, value. NULL is smallest, NaN largest."""

    def rank(value: Any) -> tuple[int, Any]:
        if value is None:
            return (0, 0)
        return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)

    best: dict[Any, tuple[Any, ...]] = {}
    for row in rows:
        order = [rank(row[1]), rank(row[2]), row[3] is True, rank(row[4]), rank(row[3])]
        if row[0] not in best or order > best[row[0]][0]:
            best[row[0]] = (order, row)
    return [row for _, row in best.values() if row[3] is not True]


def test_random_histories_are_read_as_the_oracle_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    # Watermarks are few, so that many are equal; NULL is a value of the key, too.
    choose = random.Random(2)
    rows: Rows = [
        (
            choose.choice([None, *range(150)]),
            choose.choice([None, math.nan, -1.5, 0.0, math.inf]),
            choose.choice([None, "", "B", "a", "é", "\U0001f600"]),
            choose.choice([None, False, True]),
            choose.choice([None, 1, 2, 3]),
        )
        for _ in range(1200)
    ]
    definition = MergeOnReadDefinition(("k",), ("w1", "w2"), "gone")
    shown = read(spark, tmp_path, rows, "k int, w1 double, w2 string, gone boolean, v int", definition)
    assert sorted(map(repr, shown)) == sorted(map(repr, oracle(rows)))


def test_of_equal_watermarks_rows_with_maps_are_chosen_the_same_each_time(spark: SparkSession, tmp_path: Path) -> None:
    definition = MergeOnReadDefinition(("k",), ("w",))
    rows: Rows = [(1, None, {"a": 1}), (1, None, {"a": 2}), (1, None, None)]
    for order in (rows, rows[::-1]):
        assert read(spark, tmp_path, order, "k int, w int, _rank map<string, int>", definition) == [(1, None, {"a": 2})]
