"""Dates, times and timestamps from their ISO text; infinities, BC and years of five digits by policy."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.datatype import DATE, INSTANT, TIME, TIMESTAMP
from replicator_source_postgres.types.range import Policy

_LAST_MICROSECOND = "23:59:59.999999"


def dates(text: pa.StringArray, policy: Policy) -> pa.Array:
    """date32 from `2024-02-29`."""
    return _cast(text, DATE.arrow, policy, "0001-01-01", "9999-12-31")


def timestamps(text: pa.StringArray, policy: Policy) -> pa.Array:
    """Naive microseconds from `2024-02-29 12:00:00.5`."""
    return _cast(text, TIMESTAMP.arrow, policy, "0001-01-01 00:00:00", f"9999-12-31 {_LAST_MICROSECOND}")


def instants(text: pa.StringArray, policy: Policy) -> pa.Array:
    """Microseconds in UTC from `2024-02-29 12:00:00.5+00`."""
    return _cast(text, INSTANT.arrow, policy, "0001-01-01 00:00:00+00", f"9999-12-31 {_LAST_MICROSECOND}+00")


def times(text: pa.StringArray, policy: Policy) -> pa.Array:
    """Microseconds since midnight from `12:00:00.5`; Postgres' legal 24:00:00 is outside."""
    text = policy.apply(text, pc.equal(text, "24:00:00"), "the time 24:00:00", _LAST_MICROSECOND)
    # Arrow reads timestamps from text, but no times.
    moments = pc.binary_join_element_wise("1970-01-01", text, " ").cast(TIMESTAMP.arrow)
    return moments.cast(pa.int64()).cast(TIME.arrow)


def _cast(text: pa.StringArray, kind: pa.DataType, policy: Policy, lowest: str, highest: str) -> pa.Array:
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return _within(text, policy, lowest, highest).cast(kind)


def _within(text: pa.StringArray, policy: Policy, lowest: str, highest: str) -> pa.StringArray:
    """The rare path: some value did not parse, so the known kinds of it are looked for."""
    text = policy.apply(text, pc.equal(text, "-infinity"), "-infinity", lowest)
    text = policy.apply(text, pc.equal(text, "infinity"), "infinity", highest)
    text = policy.apply(text, pc.ends_with(text, " BC"), "a year before 1 (BC)", lowest)
    return policy.apply(text, pc.match_substring_regex(text, "^[0-9]{5}"), "a year after 9999", highest)
