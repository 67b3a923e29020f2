"""The standard types: one Arrow type and one text form each."""

from __future__ import annotations

import copy
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import datatype
from replicator_sdk.datatype import Array, DataType, Decimal, Record, parse_type

SIMPLE = sorted(datatype._SIMPLE.values(), key=str)
NAMES = st.text(min_size=0, max_size=8)
TYPES = st.recursive(
    st.one_of(
        st.sampled_from(SIMPLE),
        st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: Decimal(p, s))),
    ),
    lambda inner: st.one_of(
        inner.map(Array), st.lists(st.tuples(NAMES, inner), max_size=3).map(lambda fields: Record(tuple(fields)))
    ),
    max_leaves=6,
)


@given(TYPES)
def test_a_type_is_read_back_from_its_text_form(kind: DataType) -> None:
    again = parse_type(str(kind))
    assert again == kind
    assert hash(again) == hash(kind)
    assert str(again) == str(kind)
    assert again.arrow == kind.arrow


@given(TYPES)
def test_a_type_survives_pickling_and_copying(kind: DataType) -> None:
    """Schemas travel to Spark's executors."""
    for again in (pickle.loads(pickle.dumps(kind)), copy.deepcopy(kind)):
        assert again == kind
        assert type(again) is type(kind)
        assert again.arrow == kind.arrow


@pytest.mark.parametrize(
    "text",
    ["", "int", "int64 ", "decimal(39,0)", "decimal(5,6)", "decimal(0,0)", "array<int64", "array<>", "int64>", "INT64",
     "decimal(5)", "record<x:int64>", 'record<"x"int64>', 'record<"x":nothing>', "array<int64>>"],
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_type(text)


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_decimals_keep_to_38_digits(precision: int, scale: int) -> None:
    with pytest.raises(ValueError, match="limits"):
        Decimal(precision, scale)


def test_types_are_immutable_and_distinguished() -> None:
    assert Decimal(10, 2) != Decimal(10, 3)
    assert Array(datatype.INT32) != Array(datatype.INT64)
    assert datatype.STRING != datatype.JSON
    assert datatype.STRING.arrow == datatype.JSON.arrow
    with pytest.raises((AttributeError, TypeError)):  # a subclass of a frozen class with slots fails by TypeError
        Decimal(10, 2).precision = 3


@pytest.mark.parametrize("kind", SIMPLE, ids=str)
def test_every_simple_type_carries_null(kind: DataType) -> None:
    assert pa.array([None], kind.arrow).null_count == 1
