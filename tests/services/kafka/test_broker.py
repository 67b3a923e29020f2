"""The Kafka brokers of the tests do what the tests rely on."""

from __future__ import annotations

import time

import pytest
from kafka.errors import KafkaError, UnknownTopicOrPartitionError

from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic, PrivateKafka


def contents(broker: KafkaBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic's committed records."""
    return [(record.key, record.value) for record in broker.records(topic)]


def test_records_keep_their_order_and_keys_their_partition(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(3)
    sent = [(b"key %d" % (n % 10), b"value %d" % n if n % 7 else None) for n in range(1000)]
    where = kafka.produce(topic, sent, compression_type="gzip", timestamp_ms=1234)
    found = kafka.records(topic)
    assert len(found) == 1000
    assert {record.timestamp for record in found} == {1234}
    for partition in range(3):
        wanted = [content for content, (place, _) in zip(sent, where, strict=True) if place == partition]
        assert wanted == [(record.key, record.value) for record in found if record.partition == partition]
    homes = {key: {place for (k, _), (place, _) in zip(sent, where, strict=True) if k == key} for key, _ in sent}
    assert all(len(places) == 1 for places in homes.values())
    assert sum(kafka.ends(topic).values()) == 1000


def test_an_unknown_topic_stays_unknown(kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaError):
        kafka.produce("never.created", [(b"key", b"value")], max_block_ms=500)
    with kafka.admin() as admin:
        assert "never.created" not in admin.list_topics()


def test_only_what_was_committed_is_read_and_transactions_leave_gaps(
    kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    kafka.transaction(topic, [(b"1", b"committed")])
    kafka.transaction(topic, [(b"2", b"taken back")], commit=False)
    kafka.produce(topic, [(b"3", b"plain")])
    assert contents(kafka, topic) == [(b"1", b"committed"), (b"3", b"plain")]
    assert [record.offset for record in kafka.records(topic)] == [0, 4]


def test_records_and_topics_are_lost_when_asked(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(2)
    kafka.produce(topic, [(None, b"%d" % n) for n in range(10)], partition=1)
    kafka.delete_records(topic, {1: 7})
    assert kafka.begins(topic) == {0: 0, 1: 7}
    assert [record.value for record in kafka.records(topic)] == [b"7", b"8", b"9"]
    kafka.add_partitions(topic, 5)
    assert len(kafka.partitions(topic)) == 5
    kafka.delete_topics(topic)
    with pytest.raises(UnknownTopicOrPartitionError):
        kafka.ends(topic)


def test_retention_forgets_within_seconds(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(retention_ms=100, segment_ms=100)
    kafka.produce(topic, [(b"old", b"old")])
    deadline = time.monotonic() + 90
    while kafka.begins(topic) == {0: 0}:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_private_broker_is_another_cluster_and_comes_back_with_its_records_and_its_port(
    how: str, kafka: KafkaBroker, private_kafka: PrivateKafka
) -> None:
    broker = private_kafka(message_max_bytes=5000)
    assert broker.cluster_id != kafka.cluster_id
    topic, port = broker.create_topic("kept"), broker.port
    broker.produce(topic, [(b"key", b"value")])
    if how == "restart":
        broker.restart(message_max_bytes=6000)
    else:
        broker.kill()
        assert not broker.running
        broker.start()
    broker.produce(topic, [(b"key", b"later")])
    assert contents(broker, topic) == [(b"key", b"value"), (b"key", b"later")]
    assert broker.port == port
