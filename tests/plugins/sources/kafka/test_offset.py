"""Offsets of topics: order on a chain, stored form, what stands between two."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.testing.contexts import TestSourceContext
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.plan import WindowPlan, ranges_between

IDS = {"a": "id-a", "b": "id-b", "ü.😀": ""}
PLACES = [(topic, partition) for topic in IDS for partition in range(3)]


def walk(steps: list[dict[tuple[str, int], int]]) -> list[KafkaOffset]:
    """A chain: from the beginning of every partition, some of them further on at each step."""
    chain = [KafkaOffset(IDS, dict.fromkeys(PLACES, 0))]
    for step in steps:
        here = chain[-1].next
        chain.append(KafkaOffset(IDS, {place: there + step.get(place, 0) for place, there in here.items()}))
    return chain


chains = st.lists(
    st.dictionaries(st.sampled_from(PLACES), st.integers(1, 1 << 40), min_size=1), min_size=1, max_size=8
).map(walk)


@given(chains)
def test_a_chain_is_in_order(chain: list[KafkaOffset]) -> None:
    for i, one in enumerate(chain):
        for j, other in enumerate(chain):
            assert (one < other) == (i < j)
            assert (one <= other) == (i <= j)
            assert (one == other) == (i == j)
    assert len(set(chain)) == len(chain)


@given(chains)
def test_an_offset_survives_its_stored_form(chain: list[KafkaOffset]) -> None:
    for offset in chain:
        again = KafkaOffset.from_fields(dict(offset.fields()))
        assert again == offset
        assert hash(again) == hash(offset)


def test_an_end_is_reached_only_when_every_partition_is() -> None:
    """What `--until-current` waits for: the end of the topics need not be on the reader's chain."""
    end = KafkaOffset(IDS, {("a", 0): 5, ("a", 1): 5})
    assert KafkaOffset(IDS, {("a", 0): 9, ("a", 1): 4}) < end
    assert not KafkaOffset(IDS, {("a", 0): 9, ("a", 1): 5}) < end


def test_a_partition_that_is_not_named_has_not_been_begun() -> None:
    before = KafkaOffset(IDS, {("a", 0): 5})
    assert before < before.joined({"b": "id-b"}, {("b", 0): 0})
    assert not before.joined({"b": "id-b"}, {("b", 0): 0}) < before


@given(chains)
def test_ranges_lead_from_one_offset_to_the_next(chain: list[KafkaOffset]) -> None:
    for begin, end in pairwise(chain):
        ranges = ranges_between(begin, end)
        assert begin.after(ranges) == end
        assert ranges == sorted(ranges)
        assert all(r.begin < r.end for r in ranges)


@given(chains, st.integers(0, 7))
def test_a_plan_walks_the_same_windows_again(chain: list[KafkaOffset], back: int) -> None:
    context = TestSourceContext()
    plan = WindowPlan(context)
    plan.resume(chain[0])
    for end in chain[1:]:
        assert plan.next_end(end) is None
        plan.add(end)
    start = min(back, len(chain) - 1)
    again = WindowPlan(context)
    again.resume(chain[start])
    walked = [chain[start]]
    while (end_again := again.next_end(walked[-1])) is not None:
        walked.append(end_again)
    assert walked == chain[start:]


def test_windows_that_are_durable_are_forgotten() -> None:
    chain = walk([{("a", 0): 1}] * 5)
    context = TestSourceContext()
    plan = WindowPlan(context)
    for end in chain[1:5]:
        plan.add(end)
    context.committed = chain[3]
    plan.add(chain[5])
    again = WindowPlan(context)
    again.resume(chain[0])
    assert again.next_end(chain[0]) == chain[4]


def test_a_stranger_s_offset_is_refused() -> None:
    for fields in ({}, {"file": b"binlog.000001"}, {"topics": b"[]"}, {"topics": b"{"}):
        with pytest.raises(HistoryLostError, match="RPL-3950"):
            KafkaOffset.from_fields(fields)
