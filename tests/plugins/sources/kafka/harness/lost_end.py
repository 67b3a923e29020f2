"""A broker whose disk loses the end of a partition, as after a power failure."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.services.kafka.broker import KafkaBroker
from tests.services.kafka.client import Content


class LostEnd:
    """A topic of one partition that loses its last records.

    Attributes:
        broker: The broker, of the test's own.
        topic: The topic's name.
    """

    def __init__(self, broker: KafkaBroker, kept: Iterable[Content], lost: Iterable[Content]) -> None:
        """Write the records that the partition keeps, then those that it loses later."""
        self.broker = broker
        self.topic = broker.create_topic("orders")
        broker.produce(self.topic, kept)
        self._end = broker.ends(self.topic)
        broker.stop()
        self._copy = broker.data.parent / "kept"
        shutil.copytree(self._folder, self._copy)
        broker.start()
        broker.produce(self.topic, lost)

    @property
    def _folder(self) -> Path:
        return self.broker.data / f"{self.topic}-0"

    def lose(self, then: Iterable[Content] = ()) -> None:
        """The broker dies and comes back with what its disk had before; then `then` is written."""
        self.broker.kill()
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)
        self.broker.start()
        assert self.broker.ends(self.topic) == self._end
        self.broker.produce(self.topic, then)
