"""Records that retention deletes after they were read are not needed: tables continue, even if no record is left."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from replicator_sdk import TableId
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaSource
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.fixtures import MakeTopic


@pytest.mark.parametrize("distributed", [True, False])
@pytest.mark.parametrize("emptied", [("orders",), ("orders", "goods")])
def test_a_table_whose_records_were_deleted_continues_with_its_next_record(
    kafka: KafkaBroker, kafka_topic: MakeTopic, tmp_path: Path, emptied: tuple[str, ...], *, distributed: bool
) -> None:
    topics = {name: kafka_topic(2) for name in ("orders", "goods")}
    document = PartitionedShop(tmp_path, 1).document("memory", {"store": str(tmp_path)})
    document["stages"][0]["plugin"]["properties"] = {
        "bootstrapServers": kafka.bootstrap,
        "topics": list(topics.values()),
        "distributed": distributed,
        "kafka": {"fetch.max.wait.ms": 50},
    }
    for name, topic in topics.items():
        kafka.produce(topic, inserts(range(5), orders(name)))
    host = Host(MemoryTarget, KafkaSource)
    run_pipeline(document, host)
    for name in emptied:
        kafka.delete_records(topics[name], kafka.ends(topics[name]))
    stop = threading.Event()
    following = threading.Thread(
        target=run_pipeline, args=(document, host), kwargs={"until_current": False, "stop": stop}
    )
    following.start()
    try:
        time.sleep(2)  # the run has looked for tables by then; where it has not, the records only come early
        for name, topic in topics.items():
            kafka.produce(topic, inserts(range(5, 8), orders(name)))
        deadline = time.monotonic() + 120
        while any(_ids(tmp_path, name) != list(range(8)) for name in topics) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        stop.set()
        following.join(120)
    assert [_ids(tmp_path, name) for name in topics] == [list(range(8))] * 2
    MemoryStore.forget(str(tmp_path))


def _ids(store: Path, name: str) -> list[int]:
    return sorted(row["id"] for row in MemoryStore.of(str(store)).rows(TableId("shop", name, "public")))
