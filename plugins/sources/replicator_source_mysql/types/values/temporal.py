"""Temporal values of the log, in the forms of MySQL 5.6 and later and in the older ones, and of text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Int64s, fixed_width, validity
from replicator_sdk.datatype import DATE, STRING, DataType
from replicator_source_mysql.types.values.arrays import Cells, matrix_of
from replicator_source_mysql.types.values.date_parts import (
    DAY,
    LOWEST_DAY,
    SECOND,
    Moments,
    durations,
    instants,
    to_arrow,
)
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy

OLD_TIMESTAMP, OLD_TIME, OLD_DATETIME = 7, 11, 12
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
"""Type codes of the log. The old ones have no fraction of a second."""

_DATETIME_ZERO, _TIME_ZERO = 0x8000000000, 0x800000
_FRACTION_UNIT = (0, 10_000, 100, 1)
"""Microseconds in one unit of a fraction that is 1, 2 or 3 bytes long."""


def dates(cells: Cells, target: DataType, policy: ColumnPolicy) -> pa.Array:
    """DATE: 3 bytes, little-endian; 15 bits year, 4 month, 5 day."""
    packed = _little(cells, 3)
    moments = Moments(packed >> 9, packed >> 5 & 15, packed & 31, np.zeros_like(packed), cells.present)
    return to_arrow(moments, target, 0, policy, is_date=True)


def datetimes(cells: Cells, kind: int, digits: int, target: DataType, policy: ColumnPolicy) -> pa.Array:
    """DATETIME: year and month, day, hour, minute, second packed into 40 bits; before 5.6 the number YYYYMMDDHHMMSS."""
    if kind == OLD_DATETIME:
        day_part, clock = np.divmod(_little(cells, 8), 1_000_000)
        year, month, day = day_part // 10_000, day_part // 100 % 100, day_part % 100
        seconds, fraction = _clock_seconds(clock), np.zeros_like(clock)
    else:
        packed = _big(cells, 0, 5) - _DATETIME_ZERO
        year, month = np.divmod(packed >> 22, 13)
        day = packed >> 17 & 31
        seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
        fraction = _fraction(cells, 5, digits)
    moments = Moments(year, month, day, seconds * SECOND + fraction, cells.present)
    return to_arrow(moments, target, digits, policy, is_date=False)


def timestamps(cells: Cells, kind: int, digits: int, target: DataType, policy: ColumnPolicy) -> pa.Array:
    """TIMESTAMP: seconds since 1970, big-endian with a fraction; before 5.6 little-endian without."""
    seconds = _little(cells, 4) if kind == OLD_TIMESTAMP else _big(cells, 0, 4)
    fraction = np.zeros_like(seconds) if kind == OLD_TIMESTAMP else _fraction(cells, 4, digits)
    return instants(seconds * SECOND + fraction, cells.present, target, digits, policy)


def times(cells: Cells, kind: int, digits: int) -> pa.Array:
    """TIME: hours, minutes, seconds in 24 bits and a fraction, both offset so that negative ones sort first."""
    if kind == OLD_TIME:
        number = _little(cells, 3)
        number = np.where(number >= 1 << 23, number - (1 << 24), number)
        return durations(np.sign(number) * _clock_seconds(np.abs(number)) * SECOND, 0, cells.present)
    size = (digits + 1) // 2
    # The whole with its fraction is one number, so a negative value with a fraction borrows from the seconds.
    packed = _big(cells, 0, 3 + size) - (_TIME_ZERO << 8 * size)
    whole, fraction = np.divmod(np.abs(packed), 1 << 8 * size)
    seconds = (whole >> 12 & 1023) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    return durations(np.sign(packed) * (seconds * SECOND + fraction * _FRACTION_UNIT[size]), digits, cells.present)


def years(cells: Cells, digits: int) -> pa.Array:
    """YEAR: years since 1900, 0 for the year 0; in the two-digit form of MariaDB it is a year from 1970 to 2069."""
    stored = _little(cells, 1)
    year = _whole_year(stored % 100) if digits == 2 else np.where(stored == 0, 0, stored + 1900)
    return fixed_width(year.astype(np.int16), pa.int16(), cells.present)


def years_from_text(text: pa.StringArray, digits: int) -> pa.Array:
    """The same from text."""
    year = text.cast(pa.int16())
    if digits != 2:
        return year
    present = validity(year)
    numbers = year.fill_null(0).to_numpy().astype(np.int64)
    return fixed_width(_whole_year(numbers).astype(np.int16), pa.int16(), present)


def _whole_year(year: Int64s) -> Int64s:
    return np.where(year < 70, year + 2000, year + 1900)


def moments_from_text(raw: pa.BinaryArray, target: DataType, digits: int, policy: ColumnPolicy) -> pa.Array:
    """DATE, DATETIME or TIMESTAMP as the server prints them, which as the target STRING they stay.

    Raises:
        ValueError: When a value is none.
        DataError: When there is a zero date or one that is none and the rule is to fail.
    """
    text = raw.cast(pa.string())
    if target == STRING:
        return text
    plain = target.arrow if target == DATE else pa.timestamp("us")
    try:
        values = text.cast(plain)
    except pa.ArrowInvalid:
        return _parsed(raw, target, digits, policy)
    lowest = pc.min(values.cast(pa.int32() if target == DATE else pa.int64())).as_py()
    if lowest is not None and lowest < LOWEST_DAY * (1 if target == DATE else DAY):
        return _parsed(raw, target, digits, policy)
    return values.cast(pa.int64()).cast(target.arrow) if plain != target.arrow else values


def _parsed(raw: pa.BinaryArray, target: DataType, digits: int, policy: ColumnPolicy) -> pa.Array:
    """The rare path: some date is not valid, so all are parsed."""
    is_date = target == DATE
    width = 10 if is_date else 19 + (digits + 1) * bool(digits)
    numbers = matrix_of(raw, width).astype(np.int64) - ord("0")
    places = [place for place in range(width) if place not in {4, 7, 10, 13, 16, 19}]
    present = validity(raw)
    if ((numbers[:, places] < 0) | (numbers[:, places] > 9))[present].any():
        raise ValueError("not a digit")
    time = np.zeros(len(raw), np.int64)
    if not is_date:
        clock = _number(numbers, 11, 2) * 3600 + _number(numbers, 14, 2) * 60 + _number(numbers, 17, 2)
        time = clock * SECOND + _number(numbers, 20, digits) * 10 ** (6 - digits)
    moments = Moments(_number(numbers, 0, 4), _number(numbers, 5, 2), _number(numbers, 8, 2), time, present)
    return to_arrow(moments, target, digits, policy, is_date=is_date)


def _number(numbers: Int64s, at: int, width: int) -> Int64s:
    value = np.zeros(len(numbers), np.int64)
    for place in range(at, at + width):
        value = value * 10 + numbers[:, place]
    return value


def _clock_seconds(clock: Int64s) -> Int64s:
    """Seconds of the number HHMMSS."""
    return clock // 10_000 * 3600 + clock // 100 % 100 * 60 + clock % 100


def _fraction(cells: Cells, offset: int, digits: int) -> Int64s:
    size = (digits + 1) // 2
    if not size:
        return np.zeros(len(cells.start), np.int64)
    return _big(cells, offset, size) * _FRACTION_UNIT[size]


def _big(cells: Cells, offset: int, width: int) -> Int64s:
    wide = np.zeros((len(cells.start), 8), np.uint8)
    wide[:, 8 - width :] = cells.part(offset, width).octets(width)
    return wide.view(">i8")[:, 0].astype(np.int64)


def _little(cells: Cells, width: int) -> Int64s:
    wide = np.zeros((len(cells.start), 8), np.uint8)
    wide[:, :width] = cells.octets(width)
    return wide.view("<i8")[:, 0].astype(np.int64)
