"""Which row is the latest is what the SDK's reader in Spark says, for every type of watermark and its special values."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from replicator_sdk.merge_on_read import MergeOnReadDefinition, latest_rows
from replicator_sdk.merge_on_read.freshness import by_freshness, last_of_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "float": (pa.float64(), "double", [None, float("nan"), float("-inf"), -0.0, 0.0, 1.5, float("inf")]),
    "text": (pa.string(), "string", [None, "", "a", "B", "ä", "\U0001f600", "z\x00"]),
    "bytes": (pa.binary(), "binary", [None, b"", b"\x00", b"\xff", b"a"]),
    "flag": (pa.bool_(), "boolean", [None, False, True]),
    "number": (pa.int64(), "bigint", [None, -(2**63), 0, 2**63 - 1]),
    "decimal": (pa.decimal128(5, 2), "decimal(5,2)", [None, Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")]),
    "day": (pa.date32(), "date", [None, date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "moment": (
        pa.timestamp("us", "UTC"),
        "timestamp",
        [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_latest_row_is_the_one_that_spark_reads(spark: SparkSession, name: str) -> None:
    kind, sql, values = VALUES[name]
    chance = random.Random(name)
    rows = [
        (chance.randrange(40), chance.choice(values), chance.choice(values), chance.random() < 0.3) for _ in range(150)
    ]
    key, first, second, gone = (list(column) for column in zip(*rows, strict=True))
    numbered = [(*row, place) for place, row in enumerate(rows)]
    frame = spark.createDataFrame(numbered, f"k int, a {sql}, b {sql}, gone boolean, place int")
    seen = latest_rows(frame, MergeOnReadDefinition(("k",), ("a", "b"), "gone")).collect()
    codes, deleted = np.array(key, np.int64), np.array(gone)
    order = by_freshness(codes, [pa.array(first, kind), pa.array(second, kind)], deleted)
    ours = {int(codes[place]): rows[place] for place in order[last_of_each(codes[order])] if not deleted[place]}
    assert ours.keys() == {row["k"] for row in seen}
    assert {k: [_value(v) for v in row[1:3]] for k, row in ours.items()} == {
        r["k"]: [_value(v) for v in rows[r["place"]][1:3]] for r in seen
    }


def _value(value: Any) -> Any:
    """Values that compare as equal are equal: NaN is one value."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
