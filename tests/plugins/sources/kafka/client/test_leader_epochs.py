"""A partition that lost its end and grew again past the saved offset, with other records, is refused."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk import TableId
from replicator_sdk.errors import HistoryLostError
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaOffset, KafkaSource
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.fetch import read_new
from replicator_source_kafka.client.leader_epochs import LeaderEpochs
from tests.plugins.sources.kafka.harness.lost_end import LostEnd
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import Planner, Pump, inserts, orders
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.cluster import KafkaCluster
from tests.services.kafka.fixtures import PrivateKafka

CODE = "RPL-3974"


@pytest.fixture
def three_brokers() -> Iterator[tuple[KafkaCluster, KafkaBroker]]:
    """The first is the controller and stays; the second and the third may be killed."""
    with contextlib.ExitStack() as brokers:
        cluster = KafkaCluster()
        brokers.callback(cluster.remove)
        third = KafkaBroker(joins=cluster.first, node_id=3)
        brokers.callback(third.remove)
        yield cluster, third.start()


def test_an_unclean_election_is_refused_by_both_ways_of_reading(
    three_brokers: tuple[KafkaCluster, KafkaBroker], tmp_path: Path
) -> None:
    """The leader has 20 records, all read, of which the follower has ten; the follower is elected and takes 30 others."""
    cluster, third = three_brokers
    topic = cluster.create_topic(f"topic.{uuid.uuid4().hex[:8]}", on=[(2, 3)], unclean_leader_election_enable="true")
    cluster.produce(topic, inserts(range(10)), acks="all")
    pipelines = [_pipeline(tmp_path / name, cluster.bootstrap, topic, distributed=name == "slices") for name in WAYS]
    host = Host(MemoryTarget, KafkaSource)
    third.stop()
    cluster.produce(topic, inserts(range(10, 20)))
    for pipeline in pipelines:
        run_pipeline(pipeline, host)
    assert [_ids(tmp_path / name) for name in WAYS] == [list(range(20))] * 2
    cluster.second.kill()
    third.start()
    _wait_for_leader(cluster, topic, 3)
    third.produce(topic, inserts(range(100, 130)))
    for pipeline in pipelines:
        with pytest.raises(HistoryLostError, match=CODE):
            run_pipeline(pipeline, host)
    assert [_ids(tmp_path / name) for name in WAYS] == [list(range(20))] * 2
    for name in WAYS:
        MemoryStore.forget(str(tmp_path / name))


WAYS = ("slices", "stream")


def _pipeline(folder: Path, bootstrap: str, topic: str, *, distributed: bool) -> dict[str, Any]:
    folder.mkdir()
    document = PartitionedShop(folder, 1).document("memory", {"store": str(folder)})
    document["stages"][0]["plugin"]["properties"] = {
        "bootstrapServers": bootstrap,
        "topics": [topic],
        "distributed": distributed,
        "kafka": {"fetch.max.wait.ms": 50},
    }
    return document


def _wait_for_leader(cluster: KafkaCluster, topic: str, broker: int) -> None:
    deadline = time.monotonic() + 120
    while cluster.leaders(topic) != {0: broker}:
        assert time.monotonic() < deadline, cluster.leaders(topic)
        time.sleep(0.1)


def _ids(store: Path) -> list[int]:
    return sorted(row["id"] for row in MemoryStore.of(str(store)).rows(TableId("shop", "orders", "public")))


# ------------------------------------------------------------ one broker that loses a part of its disk


@pytest.fixture
def lost_end(private_kafka: PrivateKafka) -> LostEnd:
    """20 rows, of which ten are lost."""
    return LostEnd(private_kafka(), inserts(range(10)), inserts(range(10, 20)))


def test_a_lost_end_is_refused_by_readers_that_go_on_and_in_windows_that_are_read_again(lost_end: LostEnd) -> None:
    pump = Pump(lost_end.broker, [lost_end.topic])
    begin = pump.prepare()
    read = pump.read().emitter.last_offset
    made = Planner(lost_end.broker, [orders()], topics=[lost_end.topic])
    first = made.log.plan(made.log.initialize(None), 1 << 30)
    assert first is not None
    again = Planner(lost_end.broker, [orders()], topics=[lost_end.topic])
    start = again.log.initialize(None)
    assert isinstance(read, KafkaOffset)
    epochs = LeaderEpochs()
    epochs.begin(read)

    lost_end.lose(inserts(range(100, 130)))

    with pytest.raises(HistoryLostError, match=rf"{CODE}.*from 10 on"):
        made.log.plan(first.end, 1 << 30)
    with pytest.raises(HistoryLostError, match=CODE):
        again.log.plan(start, 1 << 30, first.end)
    config = source_of(lost_end.broker, topics=[lost_end.topic]).config
    with Cluster(config) as cluster, pytest.raises(HistoryLostError, match=CODE):
        read_new(cluster, read.next, epochs)
    pump.offset, pump.context.committed = begin, begin
    with pytest.raises(HistoryLostError, match=CODE):
        pump.prepare()
    for each in (made, again):
        each.log.close()


def test_an_offset_before_the_lost_records_goes_on(lost_end: LostEnd) -> None:
    """What it read is still there; so it reads what the topic has now."""
    made = Planner(lost_end.broker, [orders()], topics=[lost_end.topic])
    half = made.log.plan(made.log.initialize(None), 1)
    assert half is not None
    assert isinstance(half.end, KafkaOffset)
    assert half.end.epochs
    made.log.close()
    lost_end.lose(inserts(range(100, 130)))
    later = Planner(lost_end.broker, [orders()], topics=[lost_end.topic])
    assert later.ids(later.log.initialize(half.end)) == [*range(half.end.next[lost_end.topic, 0], 10), *range(100, 130)]  # type: ignore[arg-type]
    later.log.close()
