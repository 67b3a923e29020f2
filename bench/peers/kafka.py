"""A private one-node Kafka broker (KRaft), and a standalone Connect worker as a command to run."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import install
from bench.process import end
from tests.services.processes import LOOPBACK, accepts_connections, free_port, spawn, wait_until


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker; `folder` is its own."""

    port: int
    folder: Path


def _java(classpath: Path, heap: str, *arguments: str | Path) -> list[str | Path]:
    return ["java", f"-Xmx{heap}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{classpath}/*", *arguments]


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker as long as the block lasts."""
    port, controller = free_port(), free_port()
    folder.mkdir(parents=True)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "logs",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "num.partitions": "1",
    }
    properties = write_properties(folder / "server.properties", settings)
    jars = install.jars("kafka")
    identity = "AAAAAAAAAAAAAAAAAAAAAA"
    form = _java(jars, "256m", "kafka.tools.StorageTool", "format", "-t", identity, "-c", properties)
    subprocess.run(form, check=True, capture_output=True)
    process = spawn(_java(jars, "1g", "kafka.Kafka", properties), log=folder / "broker.log")
    try:
        wait_until(lambda: accepts_connections(port), process=process, log=folder / "broker.log", seconds=60)
        yield Broker(port, folder)
    finally:
        end(process)


def records(broker: Broker, topic: str) -> int:
    """How many records the topic's partitions have taken so far; 0 while it is not there."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=f"{LOOPBACK}:{broker.port}", group_id=None)
    try:
        found = consumer.partitions_for_topic(topic) or ()
        return sum(consumer.end_offsets([TopicPartition(topic, number) for number in found]).values()) if found else 0
    finally:
        consumer.close()


def worker(broker: Broker, name: str, connectors: Sequence[Mapping[str, str]]) -> list[str | Path]:
    """The command of a Connect worker that runs `connectors`; workers of one `name` share their source offsets.

    JSON with schemas, since neither a schema registry nor its converters are on Maven Central.
    """
    settings: dict[str, object] = {
        "bootstrap.servers": f"{LOOPBACK}:{broker.port}",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": broker.folder / f"{name}.offsets",
        "offset.flush.interval.ms": "5000",
        "listeners": f"HTTP://{LOOPBACK}:{free_port()}",
        "plugin.path": install.connect_plugins(),
        "plugin.discovery": "service_load",
        "producer.batch.size": "262144",
        "producer.linger.ms": "20",
        "producer.compression.type": "lz4",
        "consumer.max.poll.records": "10000",
        "consumer.max.partition.fetch.bytes": "16777216",
    }
    files = [write_properties(broker.folder / f"{name}-worker.properties", settings)]
    files += [write_properties(broker.folder / f"{name}-{c['name']}.properties", c) for c in connectors]
    return _java(install.jars("kafka"), "3g", "org.apache.kafka.connect.cli.ConnectStandalone", *files)


def write_properties(path: Path, settings: Mapping[str, object]) -> Path:
    """A Java properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
