"""Converts dates, times and timestamps from ISO text or the server's numbers; infinities, BC and years after 9999 by policy."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.datatype import DATE, INSTANT, TIME, TIMESTAMP

_LAST_MICROSECOND = "23:59:59.999999"
_INFINITY, _PAST_INFINITY = "infinity", "-infinity"
_BEFORE, _AFTER, _MIDNIGHT = "a year before 1 (BC)", "a year after 9999", "the time 24:00:00"


def dates(text: pa.StringArray, policy: OutOfRangePolicy) -> pa.Array:
    """date32 from `2024-02-29`."""
    return _cast(text, DATE.arrow, policy, "0001-01-01", "9999-12-31")


def timestamps(text: pa.StringArray, policy: OutOfRangePolicy) -> pa.Array:
    """Naive microseconds from `2024-02-29 12:00:00.5`."""
    return _cast(text, TIMESTAMP.arrow, policy, "0001-01-01 00:00:00", f"9999-12-31 {_LAST_MICROSECOND}")


def instants(text: pa.StringArray, policy: OutOfRangePolicy) -> pa.Array:
    """Microseconds in UTC from `2024-02-29 12:00:00.5+00`."""
    return _cast(text, INSTANT.arrow, policy, "0001-01-01 00:00:00+00", f"9999-12-31 {_LAST_MICROSECOND}+00")


def times(text: pa.StringArray, policy: OutOfRangePolicy) -> pa.Array:
    """Microseconds since midnight from `12:00:00.5`; 24:00:00, which Postgres allows, is out of range."""
    text = policy.replace_where(text, pc.equal(text, "24:00:00"), _MIDNIGHT, _LAST_MICROSECOND)
    # Arrow reads timestamps from text, but no times.
    moments = pc.binary_join_element_wise("1970-01-01", text, " ").cast(TIMESTAMP.arrow)
    return moments.cast(pa.int64()).cast(TIME.arrow)


_EPOCH_DAYS = 10_957
_DAY = 86_400_000_000
_LOWEST_DAY, _HIGHEST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days since 1970."""


def from_binary_dates(days: pa.Array, policy: OutOfRangePolicy) -> pa.Array:
    """date32 from the server's days since 2000, of which the extremes are the infinities."""
    low, high = _LOWEST_DAY - _EPOCH_DAYS, _HIGHEST_DAY - _EPOCH_DAYS
    bounded = _bounded(days, policy, low, high, 31)
    return pc.add(bounded, pa.scalar(_EPOCH_DAYS, pa.int32())).cast(DATE.arrow)


def from_binary_timestamps(moments: pa.Array, kind: pa.DataType, policy: OutOfRangePolicy) -> pa.Array:
    """`kind` from the server's microseconds since 2000, of which the extremes are the infinities."""
    epoch = _EPOCH_DAYS * _DAY
    bounded = _bounded(moments, policy, _LOWEST_DAY * _DAY - epoch, (_HIGHEST_DAY + 1) * _DAY - 1 - epoch, 63)
    return pc.add(bounded, pa.scalar(epoch, pa.int64())).cast(kind)


def from_binary_times(times: pa.Array, policy: OutOfRangePolicy) -> pa.Array:
    """time64 from microseconds since midnight."""
    moved = times.cast(pa.int64())
    return policy.replace_where(moved, pc.equal(moved, _DAY), _MIDNIGHT, _DAY - 1).cast(TIME.arrow)


def _bounded(values: pa.Array, policy: OutOfRangePolicy, lowest: int, highest: int, bits: int) -> pa.Array:
    """Applies the policy to numbers of the server's, for the same kinds of values as `_within`."""
    limit = 1 << bits
    values = policy.replace_where(values, pc.equal(values, pa.scalar(-limit, values.type)), _PAST_INFINITY, lowest)
    values = policy.replace_where(values, pc.equal(values, pa.scalar(limit - 1, values.type)), _INFINITY, highest)
    values = policy.replace_where(values, pc.less(values, pa.scalar(lowest, values.type)), _BEFORE, lowest)
    return policy.replace_where(values, pc.greater(values, pa.scalar(highest, values.type)), _AFTER, highest)


def _cast(text: pa.StringArray, kind: pa.DataType, policy: OutOfRangePolicy, lowest: str, highest: str) -> pa.Array:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return _within(text, policy, lowest, highest).cast(kind)


def _within(text: pa.StringArray, policy: OutOfRangePolicy, lowest: str, highest: str) -> pa.StringArray:
    """Applies the policy to the known kinds of values that do not parse; used only when the fast cast fails."""
    text = policy.replace_where(text, pc.equal(text, "-infinity"), _PAST_INFINITY, lowest)
    text = policy.replace_where(text, pc.equal(text, "infinity"), _INFINITY, highest)
    text = policy.replace_where(text, pc.ends_with(text, " BC"), _BEFORE, lowest)
    return policy.replace_where(text, pc.match_substring_regex(text, "^[0-9]{5}"), _AFTER, highest)
