"""What is marked of a column is exactly what fails by itself, under each pair of rules, in both forms of its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import Refusal
from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import DataError
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.binlog_values import LogColumn
from replicator_source_mysql.types.text_values import TextColumn
from replicator_source_mysql.types.values.out_of_range import Policy
from tests.plugins.sources.mysql.types.value_conversion import policy, target_of

Values = Sequence[bytes | None]
Marked = tuple[pa.Array, Refusal | None]
DAY, NAME = ColumnDefinition("v", "date"), ColumnDefinition("v", "varchar(20)", charset="utf8mb4")
_DATE_CODE, _VARCHAR_CODE = 10, 15
DATES = {  # year, month, day; a zero date, partial ones, and those of a year that has no days
    date: date.encode()
    for date in ("2024-02-29", "1999-12-31", "0000-00-00", "2024-00-10", "2024-05-00", "0000-03-01", "0001-01-01")
}
TEXTS = (b"plain", "gr\u00fcn".encode(), b"\xff\xfe", b"", b"\xc3")


def packed(date: bytes) -> bytes:
    year, month, day = map(int, date.split(b"-"))
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def from_log(column: ColumnDefinition, rules: Policy, values: Values) -> Marked:
    """The log has dates in three bytes."""
    is_date = column is DAY
    logged = [None if value is None else packed(value) if is_date else value for value in values]
    start = np.cumsum([0, *(len(value or b"") for value in logged)])[:-1].astype(np.int64)
    length = np.array([len(value or b"") for value in logged], np.int64)
    present = np.array([value is not None for value in logged], np.bool_)
    code = _DATE_CODE if is_date else _VARCHAR_CODE
    reader = LogColumn(column, code, 80 if code == _VARCHAR_CODE else 0, target_of(column, rules), rules, marks=True)
    window = np.frombuffer(b"".join(value or b"" for value in logged) + b"\0" * 8, np.uint8)
    return reader.convert_marked(window, start, length, present)


def from_text(column: ColumnDefinition, rules: Policy, values: Values) -> Marked:
    return TextColumn(column, target_of(column, rules), rules, marks=True).convert_marked(pa.array(values, pa.binary()))


def one_by_one(column: ColumnDefinition, rules: Policy, values: Values) -> tuple[list[Any], list[bool]]:
    """Each value converted by itself, without marks."""
    reader = TextColumn(column, target_of(column, rules), rules)
    found: list[Any] = []
    for value in values:
        try:
            found.append(reader.convert(pa.array([value], pa.binary()))[0].as_py())
        except DataError:
            found.append(DataError)
    return [None if one is DataError else one for one in found], [one is DataError for one in found]


@pytest.mark.parametrize("convert", [from_log, from_text])
@pytest.mark.parametrize("zero_dates", ["fail", "null", "text"])
@pytest.mark.parametrize("out_of_range", [OutOfRange.FAIL, OutOfRange.NULL])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.sampled_from(list(DATES.values())), max_size=12))
def test_dates_that_fail_by_themselves_are_marked_and_what_a_rule_replaces_is_counted_once(
    convert: Callable[..., Marked], zero_dates: str, out_of_range: OutOfRange, values: list[bytes | None]
) -> None:
    rules, singly = policy(zero_dates, out_of_range), policy(zero_dates, out_of_range)
    expected, refused = one_by_one(DAY, singly, values)
    found, refusal = convert(DAY, rules, values)
    found.validate(full=True)
    assert found.to_pylist() == expected
    assert (refusal.mask.to_pylist() if refusal else [False] * len(values)) == refused
    assert refusal is None or refusal.code in {"RPL-3735", "RPL-3736"}
    assert +rules.replaced == +singly.replaced


@pytest.mark.parametrize("convert", [from_log, from_text])
@given(st.lists(st.none() | st.sampled_from(TEXTS), max_size=12))
def test_text_that_its_character_set_does_not_have_is_marked(
    convert: Callable[..., Marked], values: list[bytes | None]
) -> None:
    expected, refused = one_by_one(NAME, policy(), values)
    found, refusal = convert(NAME, policy(), values)
    assert found.to_pylist() == expected
    assert (refusal.mask.to_pylist() if refusal else [False] * len(values)) == refused
    assert refusal is None or (refusal.code, refusal.what) == (
        "RPL-3733",
        "column 'v' holds bytes that are no text in utf8mb4",
    )


def test_a_column_that_does_not_mark_fails() -> None:
    rules = Policy("fail", OutOfRange.FAIL, "shop.orders", Counter())
    reader = TextColumn(DAY, target_of(DAY, rules), rules)
    with pytest.raises(DataError, match="zero or partial date"):
        reader.convert_marked(pa.array([b"0000-00-00"], pa.binary()))
