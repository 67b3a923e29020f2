"""Each event of a window has a number of its own, the same at every replay, below the window's count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.schema import TableId
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.tables.quarantine import TABLE as QUARANTINE
from replicator_source_kafka.window.event_numbers import EventNumbers, width_of
from tests.plugins.sources.kafka.formats.connect import records

TABLES = [TableId("d", f"t{number}") for number in range(5)]


def window(count: int) -> tuple[KafkaOffset, KafkaOffset]:
    first = int(records((b"1", b"1")).offset[0])
    begin, end = ({(topic, 0): first + at for topic in ("a", "s.public.orders")} for at in (0, count))
    ids = {"a": "1", "s.public.orders": "2"}
    return KafkaOffset(ids, begin), KafkaOffset(ids, end)


@given(st.integers(1, 6), st.integers(0, 5))
def test_rows_of_all_tables_have_numbers_after_those_of_schema_changes_and_none_twice(count: int, routed: int) -> None:
    tables = TABLES[:routed]
    width = width_of(tables)
    numbers = EventNumbers(*window(count), width, tables)
    read = records(*([(b"1", b"1")] * count))
    found = np.concatenate([numbers.of(read, table) for table in [*tables, QUARANTINE]])
    assert len(np.unique(found)) == len(found)
    assert numbers.of_schemas == 2 * count * width
    assert (found >= numbers.of_schemas).all()
    assert (found < numbers.count).all()
    for table in tables:
        assert (np.diff(numbers.of(read, table)) > 0).all()


@given(st.integers(2, 6), st.permutations(TABLES), st.integers(0, 5))
def test_with_other_routes_a_later_record_is_never_numbered_below_an_earlier_one(
    width: int, order: list[TableId], routed: int
) -> None:
    """So a table that holds an event is not given a later one under a number that it has passed."""
    former, now = (EventNumbers(*window(4), width, tables) for tables in (TABLES[: width - 1], order[:routed]))
    read = records(*([(b"1", b"1")] * 4))
    for table in TABLES:
        before, after = former.of(read, table), now.of(read, table)
        assert (after[1:] > before[:-1]).all()
    assert former.count == now.count
