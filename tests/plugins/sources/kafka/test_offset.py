"""Offsets of topics: their order, their stored form, the ranges between two."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from replicator_sdk.errors import HistoryLostError
from replicator_source_kafka import KafkaOffset
from replicator_source_kafka.offset import ranges_between
from tests.plugins.sources.kafka.harness.offset_chains import IDS, chains


@given(chains)
def test_a_chain_is_in_order(chain: list[KafkaOffset]) -> None:
    for i, one in enumerate(chain):
        for j, other in enumerate(chain):
            assert (one < other) == (i < j)
            assert (one <= other) == (i <= j)
            assert (one == other) == (i == j)
    assert len(set(chain)) == len(chain)


@given(chains)
def test_an_offset_is_equal_after_being_stored(chain: list[KafkaOffset]) -> None:
    for offset in chain:
        again = KafkaOffset.from_fields(dict(offset.fields()))
        assert again == offset
        assert hash(again) == hash(offset)


def test_leader_epochs_are_stored_and_are_no_part_of_the_place() -> None:
    offset = KafkaOffset(IDS, {("a", 0): 5, ("b", 1): 7}, {("a", 0): 3})
    again = KafkaOffset.from_fields(dict(offset.fields()))
    assert again.epochs == {("a", 0): 3}
    assert again == KafkaOffset(IDS, offset.next)
    assert not again < KafkaOffset(IDS, offset.next)


def test_offsets_without_epochs_are_read_and_earlier_versions_read_those_with_epochs() -> None:
    """Earlier versions use the id and the next offsets of a topic, and ignore the rest."""
    earlier = b'{"a":{"id":"id-a","next":{"0":5}}}'
    offset = KafkaOffset.from_fields({"topics": earlier})
    assert (offset.next, offset.epochs) == ({("a", 0): 5}, {})
    assert offset.fields() == {"topics": earlier}
    stored = KafkaOffset(offset.topics, offset.next, {("a", 0): 3}).to_json()
    assert stored == {"a": {"id": "id-a", "next": {"0": 5}, "epochs": {"0": 3}}}


def test_an_end_is_reached_only_when_every_partition_is() -> None:
    """`--until-current` waits for the end of the topics, which need not be on the reader's chain."""
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
        assert begin.after(ranges, {}) == end
        assert ranges == sorted(ranges)
        assert all(r.begin < r.end for r in ranges)


def test_an_offset_of_another_source_is_refused() -> None:
    for fields in ({}, {"file": b"binlog.000001"}, {"topics": b"[]"}, {"topics": b"{"}):
        with pytest.raises(HistoryLostError, match="RPL-3950"):
            KafkaOffset.from_fields(fields)
