"""Debezium → Kafka → a sink, source and sink in one Connect worker: the pipeline most of the field runs.

Two sinks: Debezium's JDBC sink into another Postgres database (upserts and deletes), and Apache Iceberg's sink, which
appends every change and merges nothing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from bench.data.mysql_orders import MysqlOrders
from bench.data.postgres_orders import Orders
from bench.data.source import DATABASE, Fingerprint, Source
from bench.peers import kafka
from bench.peers.debezium import connector_settings
from bench.process import Cost, run_until
from tests.services.postgres.server import PostgresServer
from tests.services.processes import LOOPBACK

_COMMIT_MILLISECONDS = 2000


def topic_of(orders: Source, prefix: str, table: str) -> str:
    """Debezium's name for the table's topic."""
    return f"{prefix}.{orders.parent}.{table}"


def source_settings(orders: Orders | MysqlOrders, broker: kafka.Broker, prefix: str, table: str) -> dict[str, str]:
    """Settings of Debezium's connector from one table into its topic."""
    return connector_settings(
        orders,
        f"bench_{prefix}",
        table,
        **{"name": f"{prefix}-source", "topic.prefix": prefix, "snapshot.mode": "initial"},
        **{  # where MySQL's connector keeps what tables looked like; Postgres's needs no such place
            "schema.history.internal.kafka.bootstrap.servers": f"{LOOPBACK}:{broker.port}",
            "schema.history.internal.kafka.topic": f"{prefix}-structure",
        },
    )


def fill_topic(orders: Orders | MysqlOrders, broker: kafka.Broker, table: str, events: int, partitions: int) -> str:
    """Let Debezium write the table's rows into a new topic of so many partitions; returns its name."""
    prefix = f"filled_{table}"
    source = source_settings(orders, broker, prefix, table) | {
        "topic.creation.default.partitions": str(partitions),
        "topic.creation.default.replication.factor": "1",
    }
    topic, log = topic_of(orders, prefix, table), broker.folder / f"{prefix}.log"
    run_until(kafka.worker(broker, prefix, [source]), log, lambda: kafka.records(broker, topic) >= events)
    return topic


class ConnectPeer(ABC):
    """One table through Kafka into a sink; the source's log holds what changed between two drains."""

    name: ClassVar[str]

    def __init__(self, orders: Orders | MysqlOrders, broker: kafka.Broker, table: str, tasks: int = 1) -> None:
        self.orders, self.broker, self.table, self.tasks = orders, broker, table, tasks
        self.prefix = f"{self.name}_{table}"

    @abstractmethod
    def sink(self) -> dict[str, str]:
        """Settings of the sink's connector."""

    @abstractmethod
    def arrived(self, events: int) -> bool:
        """Whether the target has taken `events` events since the beginning and agrees with the source."""

    def drain(self, events: int) -> Cost:
        """Run a worker until the target has taken `events` events since the beginning."""
        source = source_settings(self.orders, self.broker, self.prefix, self.table)
        return self._run([source, self._sink(topic_of(self.orders, self.prefix, self.table))], events)

    def drain_topic(self, topic: str, events: int) -> Cost:
        """The same of a topic that is filled already."""
        return self._run([self._sink(topic)], events)

    def _sink(self, topic: str) -> dict[str, str]:
        return {**self.sink(), "name": f"{self.prefix}-sink", "topics": topic, "tasks.max": str(self.tasks)}

    def _run(self, connectors: Sequence[Mapping[str, str]], events: int) -> Cost:
        command = kafka.worker(self.broker, self.prefix, connectors)
        log = self.broker.folder / f"{self.prefix}.log"
        return run_until(command, log, lambda: self.arrived(events))


class JdbcSink(ConnectPeer):
    """Debezium's JDBC sink into a database of its own on the Postgres `server`."""

    name = "jdbc"

    def __init__(
        self, orders: Orders | MysqlOrders, broker: kafka.Broker, table: str, server: PostgresServer, tasks: int = 1
    ) -> None:
        super().__init__(orders, broker, table, tasks)
        self.server, self.database = server, f"sink_{table}"
        server.execute(f"CREATE DATABASE {self.database}")

    def sink(self) -> dict[str, str]:
        """Batches of 5,000, one statement a key (reduction buffer)."""
        server = self.server
        options = "stringtype=unspecified&reWriteBatchedInserts=true"
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "connection.url": f"jdbc:postgresql://{server.host}:{server.port}/{self.database}?{options}",
            "connection.username": server.user,
            "connection.password": server.password,
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "batch.size": "5000",
            "use.reduction.buffer": "true",
            "collection.name.format": self.table,
        }

    def arrived(self, events: int) -> bool:
        """Whether the newest row is there (the topic has one partition, so all others came before it), then all are."""
        del events
        newest = f"SELECT max(id) FROM {self.table}"
        present = f"SELECT 1 FROM information_schema.tables WHERE table_name = '{self.table}'"
        if not self._ask(present) or self._ask(newest) != self.orders.execute(newest):
            return False
        found = self._ask(f"SELECT count(*), sum(id), sum(quantity) FROM {self.table}")[0]
        return Fingerprint(*(int(str(value)) for value in found)) == self.orders.fingerprint(self.table)

    def _ask(self, statement: str) -> list[tuple[object, ...]]:
        return self.server.execute(statement, self.database)


class IcebergSink(ConnectPeer):
    """Apache Iceberg's sink into a Hadoop catalogue on local disk; appends."""

    name = "iceberg"

    @property
    def _warehouse(self) -> Path:
        return self.broker.folder / f"{self.prefix}-warehouse"

    def sink(self) -> dict[str, str]:
        """Debezium's envelope taken off, a commit every two seconds."""
        return {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "transforms": "debezium",
            "transforms.debezium.type": "org.apache.iceberg.connect.transforms.DebeziumTransform",
            "iceberg.tables": f"{DATABASE}.{self.table}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": str(self._warehouse),
            "iceberg.control.commit.interval-ms": str(_COMMIT_MILLISECONDS),
            "iceberg.control.topic": f"{self.prefix}-control",
        }

    def arrived(self, events: int) -> bool:
        """Whether the commits so far added that many rows."""
        metadata = self._warehouse / DATABASE / self.table / "metadata"
        hint = metadata / "version-hint.text"
        if not hint.exists() or not (version := hint.read_text().strip()):
            return False
        found = json.loads((metadata / f"v{version}.metadata.json").read_text())
        return sum(int(s["summary"].get("added-records", 0)) for s in found["snapshots"]) >= events
