"""Partitions led by different brokers, and leaders that stop during reading, as one stream and in slices."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from replicator_sdk.errors import RetryableError
from replicator_source_kafka import KafkaOffset
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import Planner, Pump, inserts, orders
from tests.services.kafka.cluster import BOTH, KafkaCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    made = KafkaCluster()
    yield made
    made.remove()


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """Two partitions, each led by another broker; ten rows in each."""
    cluster.heal()
    name = cluster.create_topic(f"topic.{uuid.uuid4().hex[:8]}", on=BOTH)
    for partition in (0, 1):
        cluster.produce(name, inserts(range(10 * partition, 10 * partition + 10)), partition=partition)
    return name


def test_all_leaders_are_read(cluster: KafkaCluster, topic: str) -> None:
    assert cluster.leaders(topic) == {0: 1, 1: 2}
    pump = Pump(cluster, [topic])
    assert sorted(number for _, number in pump.ids(pump.read())) == list(range(20))
    made = Planner(cluster, [orders()], topics=[topic])
    assert made.ids(made.log.initialize(None)) == list(range(20))  # type: ignore[arg-type]
    made.log.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_new_leader_is_used_without_an_error(cluster: KafkaCluster, topic: str, how: str) -> None:
    """A broker that is stopped passes its partitions on; one that is killed is noticed after three seconds."""
    pump = Pump(cluster, [topic])
    made = Planner(cluster, [orders()], topics=[topic])
    start = made.log.initialize(None)
    piece = made.log.plan(start, 1 << 30)
    assert piece is not None
    with pump.running() as run:
        run.wait_for(pump.source.latest_offset())
        if how == "stopped":
            cluster.second.stop()
        else:
            cluster.second.kill()
        assert made.ids(start, piece.end) == list(range(20)), "planned before, read after"  # type: ignore[arg-type]
        cluster.produce(topic, inserts(range(20, 30)), partition=1)
        assert made.ids(piece.end) == list(range(20, 30))  # type: ignore[arg-type]
        run.wait_for(pump.source.latest_offset())
    assert sorted(number for _, number in pump.ids(run)) == list(range(30))
    assert cluster.leaders(topic) == {0: 1, 1: 1}
    pump.offset = run.emitter.last_offset
    assert isinstance(pump.offset, KafkaOffset)
    assert set(pump.offset.epochs) == {(topic, 0), (topic, 1)}
    pump.prepare()  # the new leader has all records: a later start is not refused
    made.log.close()


def test_nothing_is_known_of_the_source_while_one_of_its_leaders_hangs(cluster: KafkaCluster) -> None:
    cluster.heal()
    name = cluster.create_topic(f"topic.{uuid.uuid4().hex[:8]}", on=((1,), (2,)))
    source = source_of(cluster, topics=[name])
    offset = source.latest_offset()
    with closing(source.create_health_probe(namespace="default", name="shop")) as probe:
        assert probe.ask(offset) is not None
        cluster.second.freeze()
        try:
            for _ in range(2):
                with pytest.raises(RetryableError):
                    probe.ask(offset)
        finally:
            cluster.second.thaw()
        deadline = time.monotonic() + 120
        while True:
            with suppress(RetryableError):
                assert probe.ask(offset) is not None
                break
            assert time.monotonic() < deadline
            time.sleep(0.2)
