"""The committed offsets of a consumer group."""

from __future__ import annotations

import time

from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError

from replicator_source_kafka.partition_range import TopicPartition
from tests.services.kafka.broker import KafkaBroker

_NOT_YET = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)


def group_offsets(broker: KafkaBroker, group: str, seconds: float = 60) -> dict[TopicPartition, int]:
    """The group's committed offsets by partition; empty without any.

    A broker makes the topic of all groups' offsets when it is first needed, and loads it at every start: it is asked again
    until it can say.
    """
    deadline = time.monotonic() + seconds
    with broker.admin() as admin:
        while True:
            try:
                found = admin.list_group_offsets({group: None})[group]
            except _NOT_YET:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return {(place.topic, place.partition): there.offset for place, there in found.items()}
