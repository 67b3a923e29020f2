"""Converts dates and times in parts (`google.type.Date`, `google.type.TimeOfDay`) to numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import validity

_REFORM = 1582_10_15
"""The first day of Java's calendar, which Connect's converter uses, that is Gregorian; earlier days are Julian."""


def days(year: pa.Array, month: pa.Array, day: pa.Array) -> pa.Int64Array:
    """Proleptic Gregorian days since 1970.

    Raises:
        ValueError: When a date does not exist.
    """
    present = validity(year)
    y, m, d = (part.fill_null(1).to_numpy().astype(np.int64) for part in (year, month, day))
    if ((m < 1) | (m > 12) | (d < 1)).any():
        raise ValueError("not a date")
    old = (y * 10_000 + m * 100 + d) < _REFORM
    found = np.where(old, _days_from(y, m, d, julian=True), _days_from(y, m, d, julian=False))
    after_y, after_m = y + m // 12, m % 12 + 1
    next_month = np.where(old, _days_from(after_y, after_m, 1, True), _days_from(after_y, after_m, 1, False))
    if (found >= next_month)[present].any():
        raise ValueError("not a date")
    return pa.array(found, pa.int64(), mask=~present)


def _days_from(year: np.ndarray, month: np.ndarray, day: np.ndarray | int, julian: bool) -> np.ndarray:
    """Days since 1970. Years begin in March in this computation, so that leap days are their last days."""
    before_march = (month <= 2).astype(np.int64)
    y = year + 4800 - before_march
    m = month + 12 * before_march - 3
    leaps = y // 4 - 32083 if julian else y // 4 - y // 100 + y // 400 - 32045
    return day + (153 * m + 2) // 5 + 365 * y + leaps - 2_440_588


def nanoseconds(hours: pa.Array, minutes: pa.Array, seconds: pa.Array, nanos: pa.Array) -> pa.Int64Array:
    """Nanoseconds since midnight.

    Raises:
        ValueError: When a part is outside its range.
    """
    parts = [part.fill_null(0).to_numpy().astype(np.int64) for part in (hours, minutes, seconds, nanos)]
    if any(((part < 0) | (part >= limit)).any() for part, limit in zip(parts, (25, 60, 61, 10**9), strict=True)):
        raise ValueError("not a time of day")
    h, m, s, n = parts
    return pa.array(((h * 60 + m) * 60 + s) * 10**9 + n, pa.int64(), mask=~validity(hours))
