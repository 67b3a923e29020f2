"""Which files of a table can hold any of a batch's keys, judged by the statistics in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_target_delta.files.live_files import DataFile

Test = Callable[[Any, Any], bool]


def candidate_files(files: Iterable[DataFile], keys: pa.Table) -> list[DataFile]:
    """The files that cannot be ruled out for every key.

    Args:
        files: With their statistics; one without is a candidate.
        keys: Key columns under their physical names, in Delta's types; at least one row.
    """
    tests = [
        (name, _test(values), values.null_count > 0)
        for name, values in zip(keys.column_names, keys.columns, strict=True)
    ]
    return [f for f in files if all(_may_hold(f.statistics, name, test, nulls) for name, test, nulls in tests if test)]


def _may_hold(statistics: dict[str, Any], name: str, test: Test | None, nulls: bool) -> bool:
    if nulls and statistics.get("nullCount", {}).get(name, 1) > 0:
        return True
    low = statistics.get("minValues", {}).get(name)
    high = statistics.get("maxValues", {}).get(name)
    if low is None or high is None:
        # All NULL, or bounds unknown: only the former rules out keys that are not NULL.
        rows, null_count = statistics.get("numRecords"), statistics.get("nullCount", {}).get(name)
        return rows is None or null_count is None or null_count < rows
    assert test is not None
    return test(low, high)


def _test(values: pa.ChunkedArray) -> Test | None:  # noqa: PLR0911 - one line a type
    """A test of whether any of the values is between two bounds; None where bounds mean nothing."""
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_boolean(kind):
        return None
    present = pc.drop_null(values)
    if len(present) == 0:
        return lambda _low, _high: False
    if pa.types.is_integer(kind):
        return _sorted_test(np.sort(present.to_numpy()), int)
    if pa.types.is_date(kind):
        return _sorted_test(np.sort(present.cast(pa.int32()).to_numpy()), _days)
    if pa.types.is_timestamp(kind):
        return _sorted_test(np.sort(present.cast(pa.int64()).to_numpy()), _micros, slack=999)
    bounds = pc.min_max(present).as_py()
    lowest, highest = bounds["min"], bounds["max"]
    if pa.types.is_floating(kind):
        if pc.any(pc.is_nan(present)).as_py():
            return None
        return lambda low, high: not (float(high) < lowest or float(low) > highest)
    if pa.types.is_decimal(kind):
        return lambda low, high: not (Decimal(high) < lowest or Decimal(low) > highest)
    return lambda low, high: not (high < lowest or low > highest)


def _sorted_test(values: Any, parse: Callable[[Any], int], slack: int = 0) -> Test:
    """A test by binary search; `slack` widens upper bounds that a writer may have rounded down."""

    def test(low: Any, high: Any) -> bool:
        first = int(np.searchsorted(values, parse(low), "left"))
        return first < len(values) and bool(values[first] <= parse(high) + slack)

    return test


def _days(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
