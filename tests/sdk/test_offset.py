"""Offsets and positions: the order of a log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import NumberOffset, Position
from replicator_sdk.errors import HistoryLostError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_source_sqlite.offset import SqliteOffset

NUMBERS = st.integers(0, 2**62)


@pytest.mark.parametrize("kind", [NumberOffset, MemoryOffset, SqliteOffset])
@given(a=NUMBERS, b=NUMBERS)
def test_offsets_order_as_their_numbers_and_survive_their_stored_form(kind: Any, a: int, b: int) -> None:
    one, two = kind(a), kind(b)
    assert (one < two, one == two, one > two, one <= two, one >= two) == (a < b, a == b, a > b, a <= b, a >= b)
    again = kind.from_fields(dict(one.fields()))
    assert again == one
    assert hash(again) == hash(one)


def test_offsets_of_other_sources_are_not_equal() -> None:
    assert NumberOffset(1) != MemoryOffset(1)
    with pytest.raises(HistoryLostError):
        NumberOffset.from_fields({"lsn": bytes(8)})


@given(st.tuples(NUMBERS, st.integers(0, 9)), st.tuples(NUMBERS, st.integers(0, 9)))
def test_positions_order_by_offset_and_then_by_events(a: tuple[int, int], b: tuple[int, int]) -> None:
    one, two = Position(NumberOffset(a[0]), a[1]), Position(NumberOffset(b[0]), b[1])
    assert (one < two, one <= two, one == two) == (a < b, a <= b, a == b)


def test_a_position_inside_a_transaction_says_so() -> None:
    assert (str(Position(NumberOffset(5))), str(Position(NumberOffset(5), 2))) == ("5", "5+2")
