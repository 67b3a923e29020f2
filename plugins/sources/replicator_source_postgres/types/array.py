r"""Parses array literals (`{a,"b,\"c",NULL}`), a whole column at once.

Which characters are quoted and which are escaped is computed for all bytes together, without a loop over rows. This is
safe in UTF-8: no byte of a longer character equals a quote, comma, brace or backslash.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s, bounds_of, joined_bytes, variable_width
from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.config import OutOfRange


def split_arrays(
    text: pa.StringArray, policy: OutOfRangePolicy
) -> tuple[pa.Int32Array, pa.BooleanArray, pa.StringArray]:
    """Offsets, which arrays are NULL, and all elements of a column of array literals.

    A one-dimensional array with lower bound 1 is represented exactly. A list type cannot represent others, so they are
    out of range: under `clamp` their elements are kept in storage order, dimensions and bounds are dropped.
    """
    text = _only_plain(text, policy)
    is_null = pc.is_null(text)
    counts, elements = _elements(*joined_bytes(text.drop_null()))
    offsets = bounds_of(counts, ~is_null.to_numpy(zero_copy_only=False)).astype(np.int32)
    return pa.array(offsets), is_null, elements


def _only_plain(text: pa.StringArray, policy: OutOfRangePolicy) -> pa.StringArray:
    bounded = pc.starts_with(text, "[")
    nested = pc.match_substring_regex(text, r"^(\[[^=]*=)?\{\{")
    odd = pc.or_(bounded, nested)
    if not policy.note_where(odd, "an array of several dimensions or with a lower bound other than 1"):
        return text
    if policy.rule is OutOfRange.NULL:
        return pc.if_else(odd, pa.scalar(None, pa.string()), text)
    return pc.replace_substring_regex(text, r"^\[[^=]*=", "")


def _elements(octets: Bytes, bounds: Int64s) -> tuple[Int64s, pa.StringArray]:
    """How many elements each literal has, and all of them, unquoted."""
    escaped = escaped_bytes(octets == ord("\\"))
    quote = (octets == ord('"')) & ~escaped
    quotes = np.cumsum(quote)
    outside = (quotes & 1) == 0
    comma = (octets == ord(",")) & outside
    brace = ((octets == ord("{")) | (octets == ord("}"))) & outside
    keep = ~(comma | brace | quote | ((octets == ord("\\")) & ~escaped))
    filled = np.diff(bounds) > 2
    # An element ends at a delimiter, the last one of a literal at the literal's closing brace.
    ends = np.sort(np.concatenate([np.flatnonzero(comma), bounds[1:][filled] - 1]))
    offsets = np.concatenate([[0], np.cumsum(keep)[ends]])
    was_quoted = np.diff(np.concatenate([[0], quotes[ends]])) > 0
    counts = np.diff(np.searchsorted(ends, bounds))
    values = variable_width(pa.string(), octets[keep], offsets)
    is_null = pc.and_(pc.equal(values, "NULL"), pa.array(~was_quoted))
    return counts, pc.if_else(is_null, pa.scalar(None, pa.string()), values)


def escaped_bytes(backslash: Bools) -> Bools:
    """Which bytes follow an odd run of backslashes."""
    escaped = np.zeros(len(backslash), np.bool_)
    if not backslash.any():
        return escaped
    place = np.arange(len(backslash))
    last_other = np.maximum.accumulate(np.where(backslash, -1, place))
    run = place - last_other
    escaped[1:] = (run[:-1] & 1) == 1
    return escaped
