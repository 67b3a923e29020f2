"""Base64 and numbers for whole columns."""

from __future__ import annotations

import base64
from decimal import Decimal as Number

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.datatype import Decimal
from replicator_source_kafka.types.values.byte_arrays import from_base64
from replicator_source_kafka.types.values.decimals import decimals, plain

VALUES = st.lists(st.none() | st.binary(max_size=20))


@given(VALUES, st.integers(0, 3))
def test_base64_is_read_for_all_lengths_and_slices_of_columns(values: list[bytes | None], start: int) -> None:
    text = pa.array([None if v is None else base64.b64encode(v).decode() for v in values], pa.string())
    assert from_base64(text[start:]).to_pylist() == values[start:]


@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 3))
def test_decimals_are_exact_also_with_more_sign_bytes_than_they_need(numbers: list[int | None], more: int) -> None:
    octets = [None if n is None else n.to_bytes(n.bit_length() // 8 + 1 + more, "big", signed=True) for n in numbers]
    found = decimals(pa.array(octets, pa.binary()), 10, Decimal(38, 10)).to_pylist()
    assert [None if f is None else _unscaled(f) for f in found] == numbers


def _unscaled(number: Number) -> int:
    sign, digits, exponent = number.as_tuple()
    assert exponent == -10
    return int("".join(map(str, digits))) * (-1 if sign else 1)


@given(st.integers(-(2**300), 2**300), st.integers(-5, 60))
def test_text_of_decimals_has_all_digits(number: int, scale: int) -> None:
    text = plain(number.to_bytes(40, "big", signed=True), scale)
    assert "e" not in text.lower()
    whole, _, fraction = text.partition(".")
    assert len(fraction) == max(scale, 0)
    assert int(whole.lstrip("-") + fraction) * (-1 if text[0] == "-" else 1) == number * 10 ** max(-scale, 0)
