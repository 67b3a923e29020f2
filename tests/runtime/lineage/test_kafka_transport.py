"""Events arrive in a topic of a real broker, in order; brokers that are away or refuse an event hold up nothing."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import structlog.testing
from openlineage.client.event_v2 import RunState

from replicator_runtime.engine.schedule import lineage
from replicator_runtime.lineage.events import Events
from replicator_runtime.lineage.kafka_transport import KafkaTransport
from replicator_runtime.lineage.publisher import Publisher
from replicator_runtime.lineage.transport import open_transport
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, fill
from tests.runtime.lineage.receiver import validate
from tests.services.processes import free_port
from tests.waits import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.kafka.broker import KafkaBroker
    from tests.services.kafka.fixtures import MakeTopic, PrivateKafka


def settings(bootstrap: str, topic: str) -> dict[str, Any]:
    return {"type": "kafka", "topic": topic, "config": {"bootstrap.servers": bootstrap}}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(lineage, "_LOOK_SECONDS", 0.1)
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    made = Shop(tmp_path)
    fill(made)
    return made


def events(broker: KafkaBroker, topic: str) -> list[dict[str, Any]]:
    """What is in the topic, each a valid event of one job."""
    found = []
    for record in broker.records(topic):
        assert record.key.startswith(b"run:")
        validate(event := json.loads(record.value))
        found.append(event)
    assert len({(event["job"]["namespace"], event["job"]["name"]) for event in found}) <= 1
    return found


def states(broker: KafkaBroker, topic: str) -> list[str]:
    return [event["eventType"] for event in events(broker, topic)]


def test_the_events_of_runs_arrive_in_order(shop: Shop, kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(3)
    shop.document["lineage"] = {"transport": settings(kafka.bootstrap, topic)}
    for _ in range(2):
        shop.run()
    found = states(kafka, topic)
    assert "".join(state[0] for state in found).replace("R", "") == "SCSC"
    assert (found[0], found[-1], len({*found})) == ("START", "COMPLETE", 3)
    tables = [one["name"] for event in events(kafka, topic) for one in event["outputs"]]
    assert {name.rpartition("/")[2].rpartition(".")[2] for name in tables} == {"customers", "notes"}


def test_a_run_goes_on_while_the_brokers_are_away_and_says_all_when_they_are_back(
    shop: Shop, private_kafka: PrivateKafka
) -> None:
    broker = private_kafka()
    topic = broker.create_topic("lineage")
    broker.stop()
    shop.document["lineage"] = {"transport": settings(broker.bootstrap, topic)}
    stop, changed = threading.Event(), time.monotonic()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop))
    thread.start()
    try:
        until(lambda: len(customers()) > 0)
        shop.sql("INSERT INTO customers VALUES (900, 'x')")
        until(lambda: 900 in customers())
        time.sleep(max(0.0, changed + 6 - time.monotonic()))  # the first event is given up by then
        broker.start()
        until(lambda: states(broker, topic)[:2] == ["START", "RUNNING"])
    finally:
        stop.set()
        thread.join(60)
    assert states(broker, topic)[-1] == "ABORT"


def customers() -> list[int]:
    tables = [one.schema.table.table for one in list(in_memory_target.STORAGE.tables.values())]
    return [row["id"] for row in in_memory_target.STORAGE.rows("customers")] if "customers" in tables else []


def test_a_run_that_ends_while_the_brokers_are_away_waits_no_longer_than_it_says(shop: Shop) -> None:
    shop.document["lineage"] = {"transport": settings(f"127.0.0.1:{free_port()}", "lineage")}
    with structlog.testing.capture_logs() as logs:
        began = time.monotonic()
        shop.run()
        took = time.monotonic() - began
    assert took < 20, "its own work, and ten seconds"
    assert [one["event"] for one in logs if one["event"].startswith("lineage.")][-1] == "lineage.lost"


def test_what_does_not_arrive_is_said_with_the_brokers_and_is_sent_again(private_kafka: PrivateKafka) -> None:
    broker = private_kafka()
    topic = broker.create_topic("lineage")
    broker.stop()
    publisher = Publisher(lambda: open_transport(settings(broker.bootstrap, topic)))
    publisher.add(started())
    with structlog.testing.capture_logs() as logs:
        publisher.send()
    [said] = [one["error"] for one in logs]
    assert f":{broker.port}" in said
    assert publisher.waiting == 1
    broker.start()
    publisher.send(at_once=True)
    publisher.close(3.0)
    assert publisher.waiting == 0
    assert {event["eventType"] for event in events(broker, topic)} == {"START"}


def test_a_topic_that_does_not_exist_is_said(kafka: KafkaBroker) -> None:
    publisher = Publisher(lambda: open_transport(settings(kafka.bootstrap, "no-such-topic")))
    publisher.add(started())
    with structlog.testing.capture_logs() as logs:
        publisher.send()
    publisher.close(0.1)
    assert logs[0]["error"] == "NotDeliveredError: topic no-such-topic: Broker: Unknown topic or partition"


def test_an_event_that_is_too_large_for_the_topic_holds_up_no_other(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(max_message_bytes=5000)
    publisher = Publisher(lambda: open_transport(settings(kafka.bootstrap, topic)))
    for event in (started(), large(), started()):
        publisher.add(event)
    with structlog.testing.capture_logs() as logs:
        publisher.send()
    publisher.close(3.0)
    assert [(one["event"], one["status"]) for one in logs] == [("lineage.refused", "MSG_SIZE_TOO_LARGE")]
    assert states(kafka, topic) == ["START", "START"]


def test_parts_of_a_composite_transport_are_waited_for_as_well(kafka: KafkaBroker, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic()
    made: Any = open_transport({"type": "composite", "transports": [settings(kafka.bootstrap, topic)]})
    [part] = made.transports
    assert isinstance(part, KafkaTransport)
    made.emit(started())
    made.close(3.0)
    assert states(kafka, topic) == ["START"]


def started() -> Any:
    return Events("default", "shop", "01J").start()


def large() -> Any:
    return Events("default", "shop", "01J").end(RunState.FAIL, "x" * 6000)
