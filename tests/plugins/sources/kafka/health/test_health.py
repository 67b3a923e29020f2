"""The brokers say what waits after an offset, and how long retention leaves it there."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

import pytest

from replicator_sdk import Offset, TableId
from replicator_sdk.discovery.source_health import SourceHealth
from replicator_source_kafka import KafkaSource
from replicator_source_kafka.formats.flat.table_name import table_of_topic
from replicator_source_kafka.health.probe import KafkaHealthProbe
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class _Reader:
    """What is known of the topics by what reads them."""

    skipped: frozenset[str] = frozenset()
    known: frozenset[TableId] = frozenset()


def _health(source: KafkaSource, offset: Offset | None) -> SourceHealth:
    found = source.health(offset, namespace="default", name="shop")
    assert found is not None
    return found


def _ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)


def test_records_of_all_partitions_that_come_wait_and_leave_what_their_age_does(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topics = [kafka_topic(3, retention_ms=2 * _HOUR_MS), kafka_topic(1, retention_ms=24 * _HOUR_MS), kafka_topic(1)]
    for topic in topics:
        kafka.produce(topic, [(b"k", b"v" * 1000)] * 5, partition=0)
    source = source_of(kafka, topics=topics)
    offset = source.latest_offset()
    quiet = _health(source, offset)
    assert (quiet.waiting_changes, quiet.waiting_bytes, quiet.seconds_left) == (0, 0, None)
    assert quiet.retention_seconds == 7200.0
    assert quiet.clock is None, "a broker has none to ask for"
    for topic, partition, hours in ((topics[0], 2, 1.0), (topics[1], 0, 23.5), (topics[2], 0, 99.0)):
        kafka.produce(topic, [(b"k", b"v" * 1000)] * 10, partition=partition, timestamp_ms=_ago(hours * 3600))
    found = _health(source, offset)
    assert found.waiting_changes == 30
    assert found.waiting_bytes is not None
    assert 25_000 < found.waiting_bytes < 40_000
    assert found.seconds_left == pytest.approx(1800, abs=60), "the topic of 24 hours ends first"
    assert (found.retention_seconds, found.limited_by) == (86_400.0, f"retention.ms of the topic {topics[1]}")
    assert _health(source, None) == SourceHealth()


def test_records_that_a_paused_table_needs_are_there_as_long_and_do_not_wait(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topics = [kafka_topic(1, prefix=f"shop.public.{name}", retention_ms=2 * _HOUR_MS) for name in ("orders", "goods")]
    tables = [table_of_topic(topic, None) for topic in topics]
    source = source_of(kafka, topics=topics, format="upsert-json")
    before = source.latest_offset()
    for topic, minutes in zip(topics, (90, 60), strict=True):
        kafka.produce(topic, [(b"k", b"v")] * 5, timestamp_ms=_ago(minutes * 60))
    with closing(KafkaHealthProbe(source.config, lambda: _Reader(known=frozenset(tables)))) as probe:
        after = source.latest_offset()
        assert probe.ask(after).seconds_left is None
        late = probe.ask(after, {tables[1]: before})
        assert (late.waiting_changes, late.limited_by) == (0, f"retention.ms of the topic {topics[1]}")
        assert late.seconds_left == pytest.approx(3600, abs=60), "the other topic's records are read"


def test_what_retention_has_deleted_unread_or_whose_topic_is_gone_has_no_time_left(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topics = [kafka_topic(1, retention_ms=1000), kafka_topic(1)]
    source = source_of(kafka, topics=topics)
    offset = source.latest_offset()
    kafka.produce(topics[0], [(b"k", b"v")] * 5)
    deadline = time.monotonic() + 120
    while kafka.begins(topics[0])[0] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kafka.produce(topics[0], [(b"k", b"v")] * 2, timestamp_ms=_ago(-3600))
    found = _health(source, offset)
    assert (found.waiting_changes, found.seconds_left) == (2, 0.0)
    assert found.limited_by == f"records of {topics[0]}-0 were deleted unread"
    skipping = KafkaHealthProbe(source.config, lambda: _Reader(frozenset({topics[0]})))
    with closing(skipping):
        assert skipping.ask(offset).seconds_left is None, "nothing of it is read any more"
        kafka.delete_topics(topics[1])
        deadline = time.monotonic() + 60
        while (gone := skipping.ask(offset)).seconds_left is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert (gone.seconds_left, gone.limited_by) == (0.0, f"the topic {topics[1]} is not there any more")


def test_bytes_that_come_fast_leave_what_retention_bytes_does(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(1, retention_bytes=1_000_000)
    source = source_of(kafka, topics=[topic])
    kafka.produce(topic, [(b"k", b"v" * 1000)] * 100)
    offset = source.latest_offset()
    with closing(source.create_health_probe(namespace="default", name="shop")) as probe:
        quiet = probe.ask(offset)
        assert quiet is not None
        assert quiet.seconds_left is None
        kafka.produce(topic, [(b"k", b"v" * 1000)] * 500)
        found = probe.ask(offset)
        assert found is not None
        assert found.seconds_left is not None, "half of the limit has come in a moment"
        assert 0 < found.seconds_left < 600
        assert (found.retention_seconds, found.limited_by) == (None, f"retention.bytes of the topic {topic}")


def test_an_answer_takes_a_handful_of_requests_whatever_the_number_of_partitions(
    kafka: KafkaBroker, kafka_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicator_source_kafka.client.connection import BrokerConnections

    topic = kafka_topic(40, retention_ms=_HOUR_MS)
    source = source_of(kafka, topics=[topic], metadataIntervalSeconds=60)
    offset = source.latest_offset()
    kafka.produce(topic, [(b"%d" % number, b"v") for number in range(400)])
    requests: list[str] = []
    run = BrokerConnections._run

    def counted(self: BrokerConnections, ask: object) -> object:
        requests.append("request")
        return run(self, ask)  # type: ignore[arg-type]

    monkeypatch.setattr(BrokerConnections, "_run", counted)
    with closing(source.create_health_probe(namespace="default", name="shop")) as probe:
        assert probe.ask(offset) is not None
        first = len(requests)
        assert first <= 6, "topics, ends, beginnings, settings, sizes, oldest records"
        assert probe.ask(offset) is not None
        assert len(requests) - first <= 2, "ends"
