"""Two brokers that share partitions, so that a leader can go while the other one takes over."""

from __future__ import annotations

import time

from kafka.errors import KafkaConnectionError

from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import KafkaClient

BOTH = ((1, 2), (2, 1))
"""For `create_topic(on=…)`: two partitions, each led by another broker and kept by both."""


class KafkaCluster(KafkaClient):
    """Two brokers. The first one is the controller as well and stays; the second one may be stopped and killed.

    Attributes:
        first: broker 1.
        second: broker 2.
    """

    def __init__(self) -> None:
        """Starts both."""
        self.first = KafkaBroker().start()
        try:
            self.second = KafkaBroker(joins=self.first, node_id=2).start()
        except BaseException:
            self.first.remove()
            raise

    @property
    def bootstrap(self) -> str:
        """Both addresses."""
        return f"{self.first.bootstrap},{self.second.bootstrap}"

    def heal(self) -> None:
        """Starts the second broker again, if it does not run."""
        if not self.second.running:
            self.second.start()

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition → the broker that leads it; asked again when the client chose a broker that has just been stopped."""
        deadline = time.monotonic() + 120
        while True:
            try:
                with self.first.admin() as admin:
                    (found,) = admin.describe_topics([topic])
            except KafkaConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            return {each["partition_index"]: each["leader_id"] for each in found["partitions"]}

    def remove(self) -> None:
        """Stops both at once and deletes everything they wrote."""
        self.second.remove()
        self.first.remove()
