"""Source plugin: Debezium's change topics, and keyed topics, in Kafka.

Importing this package imports no client; kafka-python is needed once a connection is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from replicator_sdk import hookimpl
from replicator_sdk.source import DeltaSource
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.plugin import KafkaSource

__all__ = ["KafkaConfig", "KafkaOffset", "KafkaSource", "delta_sources"]


@hookimpl
def delta_sources() -> Iterable[type[DeltaSource]]:
    """The one source of this package."""
    return [KafkaSource]
