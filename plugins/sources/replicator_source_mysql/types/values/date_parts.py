"""Dates and times by their parts, parsed from log or text, with the rules for zero and partial dates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s, fixed_width
from replicator_sdk.authoring.characters import matrix_rows, write_digits
from replicator_sdk.config import OutOfRange
from replicator_sdk.datatype import DATE, INSTANT, STRING, DataType
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy

SECOND = 1_000_000
DAY = 86_400 * SECOND
LOWEST_DAY = -719_162
"""0001-01-01 in days since 1970."""

_YEAR_ZERO, _NO_SUCH_DAY = "a date in the year 0", "a day that its month does not have"


@dataclass(frozen=True, slots=True)
class Moments:
    """Dates with their time of day, as unchecked numbers.

    Attributes:
        year: 0 to 9999.
        month: 0 to 12.
        day: 0 to 31.
        time: Microseconds since midnight.
        present: Which are not NULL.
    """

    year: Int64s
    month: Int64s
    day: Int64s
    time: Int64s
    present: Bools

    @property
    def partial(self) -> Bools:
        """Which are zero or partial dates."""
        return np.asarray(self.present & ((self.month == 0) | (self.day == 0)))


def of_instants(moments: Int64s, present: Bools) -> Moments:
    """The parts, in UTC, of microseconds since 1970."""
    days, time = np.divmod(moments, DAY)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    year = months.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    return Moments(year, month, day, time, present)


def to_arrow(moments: Moments, target: DataType, digits: int, policy: ColumnPolicy, *, is_date: bool) -> pa.Array:
    """The moments in the column's standard type: date, timestamp, instant, or the text the server prints.

    Args:
        moments: The parts.
        target: The standard type.
        digits: Digits of the fraction of a second, which text has all.
        policy: The rules for zero dates and for dates that are none.
        is_date: Whether text has the date alone.

    Raises:
        DataError: When there is such a date and the rule is to fail.
    """
    if target == STRING:
        return text_of(moments, digits, is_date=is_date)
    moments = _real(moments, policy)
    days = _first_days(moments) + moments.day - 1
    if target == DATE:
        return fixed_width(days.astype(np.int32), target.arrow, moments.present)
    return fixed_width(days * DAY + moments.time, target.arrow, moments.present)


def instants(moments: Int64s, present: Bools, target: DataType, digits: int, policy: ColumnPolicy) -> pa.Array:
    """Microseconds since 1970 as instants; 0 is MySQL's zero TIMESTAMP."""
    zero = present & (moments == 0)
    if target == STRING:
        parts = of_instants(moments, present)
        nothing = {name: np.where(zero, 0, getattr(parts, name)) for name in ("year", "month", "day")}
        return text_of(replace(parts, **nothing), digits, is_date=False)
    if zero.any():
        policy.note_zero_dates(int(zero.sum()))
        present = present & ~zero
    return fixed_width(moments, INSTANT.arrow, present)


def _real(moments: Moments, policy: ColumnPolicy) -> Moments:
    """The moments with every date that is none replaced under the rules."""
    partial = moments.partial
    if partial.any():
        policy.note_zero_dates(int(partial.sum()))
        moments = replace(moments, present=moments.present & ~partial)
    early = moments.present & (moments.year == 0)
    if early.any():
        clamp = policy.note(_YEAR_ZERO, int(early.sum())) is OutOfRange.CLAMP
        lowest = {name: np.where(early, 1, getattr(moments, name)) for name in ("year", "month", "day")}
        present = moments.present if clamp else moments.present & ~early
        moments = replace(moments, **lowest, time=np.where(early, 0, moments.time), present=present)
    late = moments.present & (moments.day > 28)
    if not late.any():
        return moments
    last = _first_days(replace(moments, month=moments.month + 1)) - _first_days(moments)
    wrong = late & (moments.day > last)
    if not wrong.any():
        return moments
    clamp = policy.note(_NO_SUCH_DAY, int(wrong.sum())) is OutOfRange.CLAMP
    present = moments.present if clamp else moments.present & ~wrong
    return replace(moments, day=np.where(wrong, last, moments.day), present=present)


def _first_days(moments: Moments) -> Int64s:
    """The first days of the months, in days since 1970; of absent ones anything."""
    months = (moments.year - 1970) * 12 + moments.month - 1
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def text_of(moments: Moments, digits: int, *, is_date: bool) -> pa.StringArray:
    """`YYYY-MM-DD`, or `YYYY-MM-DD HH:MM:SS[.ffffff]` with `digits` digits of the fraction."""
    width = 10 if is_date else 19 + (digits + 1) * bool(digits)
    shape = b"0000-00-00 00:00:00.000000"[:width]
    characters = np.tile(np.frombuffer(shape, np.uint8), (len(moments.present), 1))
    write_digits(characters, 0, 4, moments.year)
    write_digits(characters, 5, 2, moments.month)
    write_digits(characters, 8, 2, moments.day)
    if not is_date:
        write_clock(characters, 11, moments.time % DAY, digits, hour_width=2)
    return matrix_rows(pa.string(), characters, present=moments.present)


def write_clock(characters: np.ndarray, at: int, time: Int64s, digits: int, *, hour_width: int) -> None:
    """Write `HH:MM:SS[.ffffff]` into a matrix of characters that has the separators already."""
    seconds, fraction = np.divmod(time, SECOND)
    minutes, second = np.divmod(seconds, 60)
    hour, minute = np.divmod(minutes, 60)
    write_digits(characters, at, hour_width, hour)
    write_digits(characters, at + hour_width + 1, 2, minute)
    write_digits(characters, at + hour_width + 4, 2, second)
    if digits:
        write_digits(characters, at + hour_width + 7, digits, fraction // 10 ** (6 - digits))


def durations(time: Int64s, digits: int, present: Bools) -> pa.StringArray:
    """`[-]HHH:MM:SS[.ffffff]` from signed microseconds; hours have two digits at least."""
    shape = b"-000:00:00.000000"[: 10 + (digits + 1) * bool(digits)]
    characters = np.tile(np.frombuffer(shape, np.uint8), (len(time), 1))
    write_clock(characters, 1, np.abs(time), digits, hour_width=3)
    keep = np.ones(characters.shape, np.bool_)
    keep[:, 0] = time < 0
    keep[:, 1] = characters[:, 1] != ord("0")
    return matrix_rows(pa.string(), characters, keep=keep, present=present)
