"""Which changes of a table without a key are marked as unordered: a removal may be read before its insert."""

from __future__ import annotations

import pytest

from replicator_sdk.schema import TableId
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.tables.topic_tables import TopicOrder
from tests.plugins.sources.kafka.harness.source_runs import Pump, inserts, orders
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic

_TABLE = TableId("shop", "orders", "public")


@pytest.mark.parametrize(("partitions", "keyless", "unordered"), [(1, True, False), (3, True, True), (3, False, False)])
def test_only_tables_without_a_key_in_several_partitions_are_unordered(
    kafka: KafkaBroker, kafka_topic: MakeTopic, partitions: int, *, keyless: bool, unordered: bool
) -> None:
    """Also where all that was read is in one of the partitions; records of one key are in one partition."""
    topic = kafka_topic(partitions)
    kafka.produce(topic, inserts(range(3), orders(keyless=keyless)), partition=0)
    run = Pump(kafka, [topic]).read()
    assert {batch.is_unordered for batch in run.batches("orders")} == {unordered}


def test_partitions_that_are_added_make_a_table_unordered(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(1)
    kafka.produce(topic, inserts(range(3), orders(keyless=True)))
    pump = Pump(kafka, [topic], onNewPartitions="read", metadataIntervalSeconds=0.1)
    assert not any(batch.is_unordered for batch in pump.read().batches("orders"))
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, inserts(range(3), orders(keyless=True)), partition=1)
    with pump.running() as run:
        run.wait_until(lambda: len(run.batches("orders")) > 0)
    assert all(batch.is_unordered for batch in run.batches("orders"))


@pytest.mark.parametrize(
    ("topics", "topic", "is_known"),
    [
        ({"records": 1}, "records", True),
        ({"records": 2}, "records", False),
        ({"shop.public.orders": 1, "shop.public.lines": 3}, "shop.public.orders", True),
        ({"shop.public.orders": 1, "other.public.orders": 1}, "shop.public.orders", False),
        ({"shop.public.orders_1": 1, "shop.public.orders_2": 1}, "shop.public.orders_1", False),
    ],
)
def test_the_order_is_known_where_no_other_partition_may_have_the_tables_records(
    topics: dict[str, int], topic: str, *, is_known: bool
) -> None:
    offsets = {(name, partition): 0 for name, count in topics.items() for partition in range(count)}
    assert TopicOrder(KafkaOffset(dict.fromkeys(topics, ""), offsets)).is_known(topic, _TABLE) is is_known
