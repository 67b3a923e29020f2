"""A pipeline that is started before its topics have any record waits for the first one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from replicator_runtime.engine.run_state.retry_budget import RetryBudget
from replicator_sdk import TableId
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaSource
from tests.plugins.sources.kafka.harness.source_runs import inserts
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic


@pytest.mark.parametrize("distributed", [True, False])
def test_a_run_waits_for_the_first_record(
    kafka: KafkaBroker, kafka_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, distributed: bool
) -> None:
    topic = kafka_topic(2)
    document = PartitionedShop(tmp_path, 1).document("memory", {"store": str(tmp_path)})
    document["stages"][0]["plugin"]["properties"] = {
        "bootstrapServers": kafka.bootstrap,
        "topics": [topic],
        "distributed": distributed,
        "kafka": {"fetch.max.wait.ms": 50},
    }
    document["retries"] = {"delaySeconds": 0.2}
    waits, next_delay = threading.Event(), RetryBudget.next_delay

    def waiting(budget: RetryBudget) -> float | None:
        waits.set()
        return next_delay(budget)

    def produce() -> None:
        assert waits.wait(120)
        kafka.produce(topic, inserts(range(5)))

    monkeypatch.setattr(RetryBudget, "next_delay", waiting)
    begun = threading.Thread(target=produce)
    begun.start()
    run_pipeline(document, Host(MemoryTarget, KafkaSource))  # up to what was there when it began: nothing
    assert waits.is_set()
    begun.join()
    run_pipeline(document, Host(MemoryTarget, KafkaSource))
    rows = MemoryStore.of(str(tmp_path)).rows(TableId("shop", "orders", "public"))
    assert sorted(row["id"] for row in rows) == list(range(5))
    MemoryStore.forget(str(tmp_path))
