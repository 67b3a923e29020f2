"""NumPy arrays and Arrow's buffers hold the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.authoring.arrow_buffers import (
    bitmap,
    fixed_width,
    joined_bytes,
    spread,
    validity,
    variable_width,
    with_nulls,
)

KINDS = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()]
TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=20)


@given(TEXTS, st.sampled_from(KINDS), st.integers(0, 3))
def test_bytes_taken_out_of_an_array_make_the_same_array(texts: list[str | None], kind: pa.DataType, cut: int) -> None:
    values = pa.array([t if t is None or pa.types.is_string(kind) else t.encode() for t in texts], kind)[cut:]
    octets, bounds = joined_bytes(values)
    assert octets.tobytes() == b"".join((text or "").encode() for text in texts[cut:])
    again = variable_width(kind, octets, bounds, validity(values))
    again.validate(full=True)
    assert again.equals(values)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=20))
def test_numbers_become_an_array_with_nulls(numbers: list[int | None]) -> None:
    present = np.array([n is not None for n in numbers], np.bool_)
    raw = np.array([n or 0 for n in numbers], np.int32)
    expected = pa.array(numbers, pa.int32())
    assert fixed_width(raw, pa.int32(), present).equals(expected)
    assert with_nulls(pa.array(raw), present).equals(expected)


@given(st.lists(st.none() | st.integers(), max_size=20), st.integers(0, 9))
def test_validity_is_that_of_the_slice(numbers: list[int | None], cut: int) -> None:
    sliced = pa.array([None if n is None else 1 for n in numbers], pa.int8())[cut:]
    assert validity(sliced).tolist() == [n is not None for n in numbers[cut:]]


def test_a_column_without_nulls_has_no_bitmap() -> None:
    assert bitmap(np.array([True, True])) is None
    assert bitmap(np.array([], np.bool_)) is None
    assert bitmap(np.array([True, False])) is not None


def test_lengths_of_present_values_become_bounds_of_all() -> None:
    assert spread(np.array([2, 3]), np.array([True, False, True])).tolist() == [0, 2, 2, 5]


def test_more_bytes_than_32_bit_offsets_address_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        variable_width(pa.binary(), np.zeros(0, np.uint8), np.array([0, 2**31]), np.array([True]))
