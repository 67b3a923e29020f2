"""Values that a standard type cannot hold fail, become NULL, or become the nearest value."""

from __future__ import annotations

import pickle
from collections import Counter

import pyarrow as pa
import pytest

from replicator_sdk.authoring.out_of_range import OutOfRangePolicy
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError

FAIL, NULL, CLAMP = OutOfRange.FAIL, OutOfRange.NULL, OutOfRange.CLAMP


def policy(rule: OutOfRange) -> OutOfRangePolicy:
    return OutOfRangePolicy(rule, "public.t", "price", "RPL-7000", locate=lambda index: f"record {index}")


def mask(*flags: bool | None) -> pa.BooleanArray:
    return pa.array(flags, pa.bool_())


@pytest.mark.parametrize(("rule", "expected"), [(NULL, [1, None, None, None]), (CLAMP, [1, 9, None, 9])])
def test_values_under_the_mask_become_null_or_the_nearest_value(rule: OutOfRange, expected: list[int | None]) -> None:
    column = policy(rule)
    values = pa.array([1, 20, None, 30])
    assert column.replace_where(values, mask(False, True, None, True), "a large number", 9).to_pylist() == expected
    assert column.replaced == Counter({"a large number": 2})


def test_a_value_without_nearest_becomes_null_also_when_clamped() -> None:
    assert policy(CLAMP).replace_where(pa.array(["1", "NaN"]), mask(False, True), "NaN", None).to_pylist() == [
        "1",
        None,
    ]


def test_the_rule_fail_names_the_column_and_the_position_and_no_value() -> None:
    column = policy(FAIL).from_index(10)
    with pytest.raises(DataError) as caught:
        column.replace_where(pa.array([1, 777]), mask(False, True), "a large number", 9)
    assert (caught.value.code, caught.value.table, caught.value.position) == ("RPL-7000", "public.t", "record 11")
    assert "column 'price' holds a large number" in str(caught.value)
    assert caught.value.hint is not None
    assert "outOfRange" in caught.value.hint
    assert "777" not in str(caught.value)
    assert column.replaced == Counter()


def test_values_that_fit_are_returned_as_they_are_under_every_rule() -> None:
    values = pa.array([1, None, 3])
    for rule in OutOfRange:
        column = policy(rule)
        assert column.replace_where(values, mask(False, None, False), "a large number", 9) is values
        assert column.limit(values, 1, 3, "a large number") is values
        assert column.keep_clamped(values, mask(False, None, False), "a large number") is values
        assert column.replaced == Counter()


@pytest.mark.parametrize(("rule", "expected"), [(NULL, [None, 2, None, None]), (CLAMP, [1, 2, None, 3])])
def test_integers_outside_the_limits_become_null_or_the_limit(rule: OutOfRange, expected: list[int | None]) -> None:
    column = policy(rule)
    assert column.limit(pa.array([0, 2, None, 4]), 1, 3, "a year").to_pylist() == expected
    assert column.replaced == Counter({"a year": 2})


@pytest.mark.parametrize(("rule", "expected"), [(NULL, [1, None, None]), (CLAMP, [1, 9, None])])
def test_values_clamped_before_stay_or_become_null(rule: OutOfRange, expected: list[int | None]) -> None:
    assert policy(rule).keep_clamped(pa.array([1, 9, None]), mask(False, True, None), "a year").to_pylist() == expected


def test_a_policy_without_positions_can_be_pickled() -> None:
    column = OutOfRangePolicy(NULL, "public.t", "price", "RPL-7000")
    column.note("a year", 2)
    assert pickle.loads(pickle.dumps(column)).replaced == Counter({"a year": 2})
