"""A broker that freezes: the lag of a run that had everything grows at once, in both ways of reading, and no answer blocks for long."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.engine.run_state import progress
from replicator_runtime.engine.watching import source_watch
from replicator_sdk.errors import RetryableError
from replicator_sdk.testing.in_memory.target import MemoryStore, MemoryTarget
from replicator_source_kafka import KafkaSource
from tests.plugins.sources.kafka.harness.simulated_database import source_of
from tests.plugins.sources.kafka.harness.source_runs import inserts
from tests.runtime.engine.partitioned_shop import Host, PartitionedShop, run_pipeline
from tests.services.kafka.broker import KafkaBroker

_LIMIT = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    made = KafkaBroker()
    try:
        yield made.start()
    finally:
        made.thaw()
        made.remove()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is asked often, and soon taken for one that is away."""
    monkeypatch.setattr(source_watch, "EVERY_SECONDS", 0.3)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 3.0)


def _wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _LIMIT
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@contextmanager
def _running(document: dict[str, Any]) -> Iterator[None]:
    stop = threading.Event()
    arguments = {"until_current": False, "stop": stop}
    thread = threading.Thread(target=run_pipeline, args=(document, Host(MemoryTarget, KafkaSource)), kwargs=arguments)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_LIMIT)


@pytest.mark.parametrize("distributed", [True, False])
def test_the_lag_grows_while_a_broker_is_frozen_and_is_0_when_it_answers(
    broker: KafkaBroker, tmp_path: Path, *, distributed: bool
) -> None:
    topic = broker.create_topic(f"orders.{distributed}", 2, retention_ms=86_400_000)
    broker.produce(topic, inserts(range(5)))
    document = PartitionedShop(tmp_path, 1).document("memory", {"store": str(tmp_path)}, retries={"delaySeconds": 0.05})
    document["stages"][0]["plugin"]["properties"] = {
        "bootstrapServers": broker.bootstrap,
        "topics": [topic],
        "distributed": distributed,
        "kafka": {"fetch.max.wait.ms": 50, "request.timeout.ms": 100_000},
    }

    def status() -> dict[str, Any]:
        files = list(tmp_path.glob("state/default/shop/*/state.json"))
        found: dict[str, Any] = json.loads(files[0].read_text()) if files else {}
        return found

    def is_current() -> bool:
        found = status()
        return bool(found.get("lagSeconds") == 0 and (found.get("source") or {}).get("waitingChanges") == 0)

    try:
        with _running(document):
            _wait_for(is_current)
            broker.freeze()
            late = _wait_for(lambda: (found := status())["lagSeconds"] and found["lagSeconds"] > 3 and found)
            assert (late["phase"], late["sourceError"]) == ("streaming", None), "the reader still waits for its answer"
            assert [table["lagSeconds"] > 3 for table in late["tables"]] == [True]
            broker.thaw()
            _wait_for(is_current)
    finally:
        broker.thaw()
        MemoryStore.forget(str(tmp_path))


def test_a_frozen_broker_is_no_answer_within_seconds_and_a_closed_probe_gives_none(broker: KafkaBroker) -> None:
    topic = broker.create_topic("asked")
    source = source_of(broker, topics=[topic])
    offset = source.latest_offset()
    probe = source.create_health_probe(namespace="default", name="shop")
    assert probe.ask(offset) is not None
    broker.freeze()
    try:
        for _ in range(2):  # over the connection that it has, and over a new one
            began = time.monotonic()
            with pytest.raises(RetryableError, match=r"asking the brokers"):
                probe.ask(offset)
            assert time.monotonic() - began < 25, "a request of a run's may take 30 seconds"
    finally:
        broker.thaw()
    _wait_for(lambda: probe.ask(offset))
    probe.close()
    probe.close()
    with pytest.raises(RetryableError):
        probe.ask(offset)
