"""Rows of all kinds of types, at the ends of what they hold, which a target's reader must give as the source has them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from replicator_sdk.datatype import DATE, FLOAT64, INSTANT, INT64, STRING, TIME, TIMESTAMP, Array, Decimal, Record
from replicator_sdk.schema import Column, TableId, TableSchema

TYPES = TableSchema(
    TableId("shop", "types"),
    (
        Column("_metadata", INT64),
        Column("a.`b", STRING),
        Column("at", TIME),
        Column("naive", TIMESTAMP),
        Column("instant", INSTANT),
        Column("day", DATE),
        Column("money", Decimal(38, 10)),
        Column("ratio", FLOAT64),
        Column("times", Array(TIME)),
        Column("nested", Record((("At x", TIME), ("moments", Array(TIMESTAMP))))),
    ),
    ("_metadata",),
)
_ANCIENT = dt.datetime(1, 1, 1, 0, 0, 0, 1)
_TIME = dt.time(23, 59, 59, 5)
VALUES: list[tuple[Any, ...]] = [
    (1, "x ", _TIME, _ANCIENT, _ANCIENT.replace(tzinfo=dt.UTC), dt.date(1, 1, 1), decimal.Decimal("-1e-10"), -0.0,
     [_TIME, None], {"At x": _TIME, "moments": [_ANCIENT, None]}),
    (2, *[None] * 9),
    (3, "", dt.time(0), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
     dt.date(1582, 10, 10), decimal.Decimal(10) ** 27, float("nan"), [], {"At x": None, "moments": None}),
]  # fmt: skip
