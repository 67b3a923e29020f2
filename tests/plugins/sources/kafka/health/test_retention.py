"""What deletes records of a topic, and the time that its settings and the age of a record leave."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

import pytest

from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.fetch_request import Fetched
from replicator_source_kafka.health import growth, oldest_unread
from replicator_source_kafka.health.growth import Growth
from replicator_source_kafka.health.oldest_unread import OldestUnread
from replicator_source_kafka.health.retention import Retention, TimeLeft, by_age, by_size
from replicator_source_kafka.partition_range import TopicPartition

_TIMES = {"retention.ms": "3600000", "retention.bytes": "1000", "delete.retention.ms": "60000"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cleanup.policy": "delete", **_TIMES}, Retention(3600.0, 1000, None)),
        ({"cleanup.policy": "compact", **_TIMES}, Retention(None, None, 60.0)),
        ({"cleanup.policy": "compact,delete", **_TIMES}, Retention(3600.0, 1000, 60.0)),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, Retention()),
        ({}, Retention()),
    ],
)
def test_only_what_the_policy_of_a_topic_uses_deletes_its_records(
    settings: Mapping[str, str], expected: Retention
) -> None:
    assert Retention.of(settings) == expected


def test_the_age_of_the_first_unread_record_is_taken_from_the_retention() -> None:
    retention = Retention(3600.0)
    assert by_age("a", retention, 600.0, 600.0) == [TimeLeft(3000.0, "retention.ms of the topic a", 3600.0)]
    assert [left.seconds for left in by_age("a", retention, 7200.0, 7200.0)] == [0.0]
    assert [left.seconds for left in by_age("a", retention, -50.0, -50.0)] == [3600.0], "of a clock that is ahead"


def test_removals_of_a_compacted_topic_are_near_their_end_unless_it_is_read_for_the_first_time() -> None:
    retention = Retention(tombstone_seconds=60.0)
    assert [left.seconds for left in by_age("a", retention, 20.0, 5.0)] == [40.0]
    assert [left.seconds for left in by_age("a", retention, 90.0, 5.0)] == [0.0], "it was in time, and is late now"
    assert by_age("a", retention, 90.0, 80.0) == []


def test_bytes_that_come_bring_the_limit_nearer() -> None:
    assert [left.seconds for left in by_size("a", 1000, 400.0, 6.0)] == [100.0]
    assert by_size("a", 1000, 400.0, 0.0) == []
    assert [left.seconds for left in by_size("a", 1000, 1000.0, 0.0)] == [0.0]


def test_growth_is_that_of_the_last_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(growth.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]
    grown = Growth()
    assert grown.records_per_second(("a", 0), 5) == 0.0
    for minute in range(30):
        now[0] += 60
        grown.note({("a", 0): minute * 600 if minute < 15 else 9000})
    assert grown.records_per_second(("a", 0), 9000) == 0.0
    now[0] += 10
    assert grown.records_per_second(("a", 0), 15_100) == pytest.approx(10, rel=0.1)
    assert grown.records_per_second(("b", 0), 7) == 0.0, "a partition that is new"


class _Brokers:
    """Answers with one batch of each partition that is asked for, unless it has no place for it."""

    def __init__(self) -> None:
        self.asked: list[list[TopicPartition]] = []
        self.large: frozenset[TopicPartition] = frozenset()

    def fetch(self, begin: Mapping[TopicPartition, int], **_: Any) -> list[Fetched]:
        self.asked.append(list(begin))
        kept = [tp for rank, tp in enumerate(begin) if rank == 0 or tp not in self.large]
        return [Fetched(tp, begin[tp], b"x" if tp in kept else b"", (), 9) for tp in begin]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> _Brokers:
    class Batch:
        max_timestamp = int((time.time() - 100) * 1000)

    monkeypatch.setattr(oldest_unread, "read_batches", lambda data: [Batch()] if data else [])
    return _Brokers()


def test_of_many_partitions_some_are_looked_at_each_time_until_all_are_known(brokers: _Brokers) -> None:
    unread = {("t", partition): 5 for partition in range(150)}
    brokers.large = frozenset({("t", 3), ("t", 70)})
    oldest, cluster = OldestUnread(), cast("Cluster", brokers)
    for _ in range(6):
        oldest.look(cluster, unread)
    assert max(map(len, brokers.asked)) <= 65
    assert all(oldest.age(tp) == pytest.approx(100, abs=5) for tp in unread)
    before = len(brokers.asked)
    oldest.look(cluster, unread)
    assert len(brokers.asked) == before, "nothing is asked twice while the position stays"
    oldest.look(cluster, {("t", 0): 6})
    assert oldest.age(("t", 1)) is None, "it was read to its end"
