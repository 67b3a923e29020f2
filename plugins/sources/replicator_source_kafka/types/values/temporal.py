"""Converts dates, times and timestamps of Debezium and Connect.

The policy for values out of range applies to years before 1 and after 9999, and to digits beyond microseconds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import validity
from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import DATE, INSTANT, TIME, TIMESTAMP

_DAY = 86_400_000_000
_LOWEST_DAY, _HIGHEST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days since 1970."""
_LOWEST, _HIGHEST = _LOWEST_DAY * _DAY, (_HIGHEST_DAY + 1) * _DAY - 1
_BEFORE_OR_AFTER = "a date before the year 1 or after 9999 (or an infinite one)"
_NO_TIME_OF_DAY = "a time outside 00:00:00 to 23:59:59.999999"
_FINER = "digits beyond microseconds"

MILLIS, MICROS, NANOS = 1_000, 1_000_000, 1_000_000_000
"""Units of numbers, as parts of a second."""


def micros(values: pa.Array, unit: int, lowest: int, highest: int, limits: OutOfRangePolicy, what: str) -> pa.Array:
    """int64 microseconds, within the limits, from numbers in a unit."""
    values = values.cast(pa.int64())
    if unit > MICROS:
        return limits.limit(_cut(values, unit, limits), lowest, highest, what)
    factor = MICROS // unit
    within = limits.limit(values, -(-lowest // factor), highest // factor, what)
    return pc.multiply(within, factor)


def _cut(values: pa.Array, unit: int, limits: OutOfRangePolicy) -> pa.Array:
    """Microseconds from a finer unit; the policy decides about lost digits: `clamp` cuts them off."""
    whole, rest = np.divmod(values.fill_null(0).to_numpy(), unit // MICROS)
    found = pa.array(whole, pa.int64(), mask=~validity(values))
    return limits.keep_clamped(found, pa.array(rest != 0), _FINER) if rest.any() else found


def timestamps_of_parts(seconds: pa.Array, nanos: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
    """Naive microseconds from seconds since 1970 and nanoseconds of the second.

    Raises:
        ValueError: When the nanoseconds are a second or more, or negative.
    """
    fraction = nanos.fill_null(0).cast(pa.int64())
    if len(fraction) and not 0 <= pc.min(fraction).as_py() <= pc.max(fraction).as_py() < NANOS:
        raise ValueError("not nanoseconds of a second")
    low, high = -(-_LOWEST // MICROS), _HIGHEST // MICROS
    within = limits.limit(seconds, low, high, _BEFORE_OR_AFTER)
    if limits.rule == "clamp":  # the last microsecond of the range, not the beginning of its last second
        fraction = pc.if_else(pc.greater(seconds, high), NANOS - 1000, pc.if_else(pc.less(seconds, low), 0, fraction))
        fraction = fraction.fill_null(0)
    return pc.add(pc.multiply(within, MICROS), _cut(fraction, NANOS, limits)).cast(TIMESTAMP.arrow)


def dates(days: pa.Array, limits: OutOfRangePolicy) -> pa.Array:
    """date32 from days since 1970."""
    within = limits.limit(days.cast(pa.int64()), _LOWEST_DAY, _HIGHEST_DAY, _BEFORE_OR_AFTER)
    return within.cast(pa.int32()).cast(DATE.arrow)


def times(values: pa.Array, unit: int, limits: OutOfRangePolicy) -> pa.Array:
    """time64 from units since midnight."""
    return micros(values, unit, 0, _DAY - 1, limits, _NO_TIME_OF_DAY).cast(TIME.arrow)


def timestamps(values: pa.Array, unit: int, limits: OutOfRangePolicy) -> pa.Array:
    """Naive microseconds from units since 1970."""
    return micros(values, unit, _LOWEST, _HIGHEST, limits, _BEFORE_OR_AFTER).cast(TIMESTAMP.arrow)


def durations_as_text(values: pa.Array, unit: int, digits: int, limits: OutOfRangePolicy) -> pa.StringArray:
    """MySQL's TIME, `[-]HH:MM:SS` with `digits` of a fraction, from units; hours may exceed 24."""
    counted = values.cast(pa.int64())
    counted = _cut(counted, unit, limits) if unit > MICROS else pc.multiply(counted, MICROS // unit)
    total = counted.fill_null(0).to_numpy()
    size = np.abs(total)
    seconds, fraction = np.divmod(size, MICROS)
    parts = [_digits(seconds // 3600, 2), ":", _digits(seconds // 60 % 60, 2), ":", _digits(seconds % 60, 2)]
    if digits:
        parts += [".", _digits(fraction // 10 ** (6 - digits), digits)]
    signs = pa.array(np.where(total < 0, "-", ""))
    text = pc.binary_join_element_wise(signs, *parts, "")
    return pc.if_else(pc.is_valid(counted), text, pa.scalar(None, pa.string()))


def _digits(numbers: np.ndarray, width: int) -> pa.StringArray:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def iso_dates(text: pa.StringArray, limits: OutOfRangePolicy) -> pa.Array:
    """date32 from ISO text, a zone mark `Z` allowed."""
    return _parse(pc.utf8_rtrim(text, characters="Z"), limits).cast(DATE.arrow)


def iso_times(text: pa.StringArray, limits: OutOfRangePolicy) -> pa.Array:
    """time64 from ISO text, a zone mark `Z` allowed."""
    moments = pc.binary_join_element_wise("1970-01-01T", pc.utf8_rtrim(text, characters="Z"), "")
    return _parse(moments, limits).cast(pa.int64()).cast(TIME.arrow)


def iso_timestamps(text: pa.StringArray, limits: OutOfRangePolicy) -> pa.Array:
    """Naive microseconds from ISO text, a zone mark `Z` allowed."""
    return _parse(pc.utf8_rtrim(text, characters="Z"), limits)


def zoned_timestamps(text: pa.StringArray, limits: OutOfRangePolicy) -> pa.Array:
    """Microseconds in UTC from ISO text with a zone."""
    return _parse(text, limits, INSTANT.arrow)


def _parse(text: pa.StringArray, limits: OutOfRangePolicy, kind: pa.DataType = TIMESTAMP.arrow) -> pa.Array:
    """Parse ISO text with Arrow; years it does not support are handled after it fails."""
    cut = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    if not cut.equals(text):
        text = limits.keep_clamped(cut, pc.match_substring_regex(text, r"\.\d{6}\d*[1-9]"), _FINER)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return _within(text, limits, kind).cast(kind)


def _within(text: pa.StringArray, limits: OutOfRangePolicy, kind: pa.DataType) -> pa.StringArray:
    zone = "Z" if kind == INSTANT.arrow else ""
    for pattern, nearest in ((r"^\+?\d{5,}-", "9999-12-31T23:59:59.999999"), (r"^-", "0001-01-01T00:00:00")):
        hit = pc.match_substring_regex(text, pattern)
        limits.note_where(hit, _BEFORE_OR_AFTER)
        text = pc.if_else(hit, pa.scalar(nearest + zone if limits.rule == "clamp" else None, pa.string()), text)
    return text
