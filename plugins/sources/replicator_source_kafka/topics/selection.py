"""Which topics are read: those the settings name, or those whose names match `topicPattern`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.partition_range import TopicPartition


def find_topics(cluster: Cluster, config: KafkaConfig) -> dict[str, Topic]:
    """The topics to read that exist now, by name."""
    found = cluster.topics(config.named_topics if config.topics else None)
    return {name: found[name] for name in sorted(found) if config.wants(name)}


def check_named(config: KafkaConfig, topics: Collection[str]) -> None:
    """Check that topics which were never read, and which the settings name, exist.

    That concerns all tables: the settings were just written or edited, and no table is known by a topic without records.

    Args:
        config: The source's settings.
        topics: The topics that exist, or were read earlier.

    Raises:
        NeedsUserError: When one does not exist.
    """
    if missing := sorted(set(config.named_topics) - set(topics)):
        raise NeedsUserError(
            f"there is no topic {missing[0]}",
            code="RPL-3951",
            hint="check the name, and that the login may DESCRIBE the topic",
        )


def partitions_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    """All partitions of some topics."""
    return [tp for topic in topics.values() for tp in topic.partitions]


def check_any_record(ends: Mapping[TopicPartition, int]) -> None:
    """Check that at least one record was ever written, since tables are known from records only.

    Args:
        ends: The end offset of every partition.

    Raises:
        RetryableError: When none of the partitions ever had a record. A run then waits for the first one.
    """
    if not any(ends.values()):
        raise RetryableError(
            "no topic has ever had a record, and tables are known from records only",
            code="RPL-3982",
            hint="wait for the connector's first record, or check topics and topicPattern; the attempt is repeated",
        )
