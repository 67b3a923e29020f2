"""NumPy arrays and Arrow's buffers hold the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.authoring.arrow_buffers import (
    binary_ranges,
    bitmap,
    bounds_of,
    fixed_width,
    joined_bytes,
    validity,
    variable_width,
    with_nulls,
)

BINARY_KINDS = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()]
TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=20)
RANGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=12)
VALUES = {
    pa.int64(): st.integers(-5, 5),
    pa.string(): st.text(max_size=3),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.decimals(-9, 9, places=2),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=2),
    pa.struct([("x", pa.int64())]): st.fixed_dictionaries({"x": st.integers(0, 3)}),
}


@given(TEXTS, st.sampled_from(BINARY_KINDS), st.integers(0, 3))
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


@settings(deadline=None)
@given(st.data(), st.sampled_from(list(VALUES)), st.integers(0, 20))
def test_nulls_are_added_to_a_slice_that_has_some(data: st.DataObject, kind: pa.DataType, skipped: int) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=skipped, max_size=40))
    column = pa.array(values, kind).slice(skipped)
    present = np.array(data.draw(st.lists(st.booleans(), min_size=len(column), max_size=len(column))), np.bool_)
    made = with_nulls(column, present)
    made.validate(full=True)
    assert made.to_pylist() == [
        value if keep else None for keep, value in zip(present, column.to_pylist(), strict=True)
    ]


def test_lengths_become_bounds() -> None:
    assert bounds_of(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]


def test_lengths_of_present_values_become_bounds_of_all() -> None:
    assert bounds_of(np.array([2, 3]), np.array([True, False, True])).tolist() == [0, 2, 2, 5]


@given(RANGES, st.booleans())
def test_ranges_of_a_buffer_become_values(ranges: list[tuple[int, int, bool]], all_present: bool) -> None:
    data, start, end, present, expected = b"x", [], [], [], []
    for gap, length, here in ranges:
        start.append(len(data) + gap)
        end.append(len(data) + gap + length)
        data += b"." * gap + bytes([65 + len(start)]) * length
        present.append(here or all_present)
        expected.append(data[start[-1] : end[-1]] if present[-1] else None)
    mask = None if all_present else np.array(present, np.bool_)
    begins, ends = np.array(start, np.int64), np.array(end, np.int64)
    made = binary_ranges(pa.py_buffer(data), begins, ends, present=mask)
    made.validate(full=True)
    assert made.equals(pa.array(expected, pa.binary()))
    backwards = np.arange(len(start))[::-1]
    turned = None if mask is None else mask[::-1]
    for again in (
        binary_ranges(pa.py_buffer(data), begins, ends, present=turned, ranks=backwards),
        binary_ranges(pa.py_buffer(data), begins[::-1], ends[::-1], present=turned),
    ):
        assert again.equals(pa.array(expected[::-1], pa.binary()))


def test_values_without_any_range_are_null() -> None:
    nothing = np.zeros(0, np.int64)
    made = binary_ranges(
        pa.py_buffer(b""), nothing, nothing, present=np.zeros(2, np.bool_), ranks=np.zeros(2, np.int64)
    )
    assert made.equals(pa.nulls(2, pa.binary()))


def test_more_bytes_than_32_bit_offsets_address_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        variable_width(pa.binary(), np.zeros(0, np.uint8), np.array([0, 2**31]), np.array([True]))
