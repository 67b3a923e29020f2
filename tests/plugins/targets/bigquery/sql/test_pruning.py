"""Literal ranges of the keys that a batch touches."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.pruning import KeyRanges, Pruning, literal, prunes

NUMBER = Field("id", "INT64")
_RANGE = re.compile(r"BETWEEN (-?\d+) AND (-?\d+)")


def ranges(condition: str) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in _RANGE.findall(condition)]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60), max_size=5))
def test_every_value_is_in_a_range_and_the_ranges_are_few(batches: list[list[int]]) -> None:
    kept = KeyRanges(NUMBER)
    for values in batches:
        kept.add(pa.array(values, pa.int64()))
    found = ranges(kept.condition("T"))
    assert len(found) <= 16
    assert all(any(a <= v <= b for a, b in found) for values in batches for v in values)
    assert all(a <= b for a, b in found)


@settings(deadline=None)
@given(st.lists(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=60), max_size=5))
def test_ranges_that_several_tasks_found_hold_together_every_value(tasks: list[list[int | None]]) -> None:
    whole = KeyRanges(NUMBER)
    for values in tasks:
        one = KeyRanges(NUMBER)
        one.add(pa.array(values, pa.int64()))
        whole.include(one)
    found = ranges(whole.condition("T"))
    assert len(found) <= 16
    assert all(any(a <= v <= b for a, b in found) for values in tasks for v in values if v is not None)
    assert whole.has_null == any(None in values for values in tasks)


def test_the_widest_gaps_are_left_out() -> None:
    kept = KeyRanges(NUMBER)
    kept.add(pa.array([1, 2, 3, 1000, 1001]))
    kept.add(pa.array([5000]))
    assert ranges(kept.condition("T")) == [(1, 3), (1000, 1001), (5000, 5000)]


def test_null_keys_are_looked_for_as_well() -> None:
    kept = KeyRanges(NUMBER)
    kept.add(pa.array([1, None]))
    assert kept.condition("T") == "(T.`id` BETWEEN 1 AND 1 OR T.`id` IS NULL)"


def test_moments_are_literals_bigquery_prunes_by() -> None:
    moment = int(datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC).timestamp() * 1_000_000)
    assert literal(Field("t", "TIMESTAMP"), moment) == "TIMESTAMP '2024-02-29 12:00:00.000005+00'"
    assert literal(Field("t", "DATETIME"), moment) == "DATETIME '2024-02-29 12:00:00.000005'"
    assert literal(Field("t", "DATE"), (date(1, 1, 1) - date(1970, 1, 1)).days) == "DATE '0001-01-01'"


def test_no_text_is_ever_written_into_a_statement() -> None:
    assert not prunes(Field("mail", "STRING"))


def test_a_table_that_requires_a_filter_gets_one_that_every_row_meets() -> None:
    found = Pruning((), Field("day", "DATE")).conditions("T")
    assert found == ["(T.`day` >= DATE '0001-01-01' OR T.`day` IS NULL)"]


def test_a_range_of_the_partitioning_column_is_filter_enough() -> None:
    kept = KeyRanges(Field("day", "DATE"))
    kept.add(pa.array([date(2024, 1, 1)]))
    found = Pruning((kept,), Field("day", "DATE")).conditions("T")
    assert found == ["(T.`day` BETWEEN DATE '2024-01-01' AND DATE '2024-01-01')"]


def test_a_batch_with_only_null_in_the_partitioning_column_has_a_filter() -> None:
    """BigQuery refuses a statement without one where the table requires it."""
    kept = KeyRanges(Field("day", "DATE"))
    kept.add(pa.array([None, None], pa.date32()))
    assert Pruning((kept,), Field("day", "DATE")).conditions("T") == ["(T.`day` IS NULL)"]


def test_a_batch_without_any_key_still_has_a_filter_where_one_is_required() -> None:
    found = Pruning((KeyRanges(Field("day", "DATE")),), Field("day", "DATE")).conditions("T")
    assert found == ["(T.`day` >= DATE '0001-01-01' OR T.`day` IS NULL)"]
