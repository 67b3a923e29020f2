"""Databases with changes through Debezium, Kafka Connect and Kafka, whose processes are killed and restarted."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError

from tests.services.connect.worker import ConnectWorker
from tests.services.kafka.broker import KafkaBroker
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase

MARKER = "marker"


def kafka_source(broker: KafkaBroker, pattern: str, **properties: Any) -> tuple[str, Mapping[str, Any]]:
    """The source stage for the topics whose names match a regular expression."""
    return "kafka", {
        "bootstrapServers": broker.bootstrap,
        "topicPattern": pattern,
        "format": "debezium-json",
        "metadataIntervalSeconds": 0.5,
        **properties,
    }


@dataclass
class Stream:
    """One connector from a database into topics.

    Attributes:
        broker: Where the topics are.
        worker: Where the connector runs.
        database: The source. It has a table `marker` (`create_marker`), which the connector must read too.
        prefix: Of the topics, and the connector's name.
    """

    broker: KafkaBroker
    worker: ConnectWorker
    database: PostgresDatabase | MysqlDatabase
    prefix: str = "shop"
    _markers: int = 0

    def create_marker(self) -> None:
        """Create the table of markers, by which the end of the changes is found."""
        self.database.execute(f"CREATE TABLE {MARKER} (id int PRIMARY KEY)")

    @property
    def topics(self) -> str:
        """A regular expression for the topics of its tables; the connector has others as well."""
        return f"{self.prefix}\\.[^.]+\\.[^.]+"

    def start(self, connector: Mapping[str, object]) -> None:
        """Run the connector and wait until its snapshot is over.

        Debezium repeats an interrupted snapshot, and rows deleted in between stay in the topics.
        """
        self.worker.create(self.prefix, connector)
        self._await_marker(lambda change: change["op"] == "c")

    def disturb(self, chance: random.Random, *harms: str, pause: float = 1.5) -> None:
        """Run the faults, such as "worker killed" or "broker restarted", with a pause before each."""
        known = {
            "worker restarted": self.worker.restart,
            "broker restarted": self.broker.restart,
            "worker killed": self._kill_worker,
            "broker killed": self._kill_broker,
        }
        for harm in harms:
            time.sleep(chance.uniform(0.3, pause))
            known[harm]()
            self.worker.wait_running(self.prefix)

    def _kill_worker(self) -> None:
        self.worker.kill()
        self.worker.start()

    def _kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def finish(self, seconds: float = 180) -> None:
        """End the connector when everything that was committed until now is in the topics."""
        self._await_marker(lambda change: True, seconds)
        self.worker.delete(self.prefix)  # which sends what waits to be sent

    def _await_marker(self, fits: Callable[[Any], bool], seconds: float = 180) -> None:
        """Insert markers until the change of one that fits has arrived."""
        deadline, first = time.monotonic() + seconds, self._markers + 1
        while True:
            self._markers += 1
            self.database.execute(f"INSERT INTO {MARKER} VALUES ({self._markers})")
            patience = time.monotonic() + 5
            while time.monotonic() < patience:
                if any(change["after"]["id"] >= first and fits(change) for change in self._arrived()):
                    return
                time.sleep(0.1)
            assert time.monotonic() < deadline, f"no marker came: {self.worker.states(self.prefix)}"

    def _arrived(self) -> list[Any]:
        """The markers' changes that are in the topic."""
        try:
            topics = [topic for topic in self.broker.topics() if topic.endswith(f".{MARKER}")]
            records = self.broker.records(*topics) if topics else []
        except (KafkaError, TimeoutError):
            return []
        return [_payload(record.value) for record in records if record.value is not None]


def _payload(content: bytes) -> Any:
    read = json.loads(content)
    return read.get("payload", read)
