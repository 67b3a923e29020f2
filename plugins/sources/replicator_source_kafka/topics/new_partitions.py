"""Topics and partitions that are added while a pipeline runs."""

from __future__ import annotations

from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.topics.position_check import added_partitions, check_same_topics
from replicator_source_kafka.topics.selection import find_topics, partitions_of


def with_new_partitions(cluster: Cluster, config: KafkaConfig, offset: KafkaOffset) -> KafkaOffset:
    """`offset`, and the beginning of what was added since: topics that match, partitions if the settings allow it.

    Raises:
        ReplicatorError: What `check_same_topics` and `added_partitions` raise.
    """
    topics = find_topics(cluster, config)
    check_same_topics(config, topics, offset)
    new = {name: topic for name, topic in topics.items() if name not in offset.topics}
    partitions = [*added_partitions(config, topics, offset), *partitions_of(new)]
    ids = {name: topic.id for name, topic in new.items()}
    return offset.joined(ids, cluster.offsets(dict.fromkeys(partitions, EARLIEST))) if partitions else offset


def grown_topics(offset: KafkaOffset, later: KafkaOffset) -> set[str]:
    """Topics of `offset` that have more partitions at `later`."""
    return {topic for topic, partition in later.next if (topic, partition) not in offset.next} & set(offset.topics)


class NewPartitions:
    """Adds new topics and partitions to an offset. Used by one thread.

    When a topic gets more partitions, keys move to other partitions. What the older partitions held when that was noticed
    is read first, so that a key's older changes come before its newer ones in another partition.
    """

    def __init__(self, cluster: Cluster, config: KafkaConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._first: dict[TopicPartition, int] = {}

    def join(self, offset: KafkaOffset) -> KafkaOffset:
        """As `with_new_partitions`; `offset` itself while older partitions are still to be read."""
        joined = with_new_partitions(self._cluster, self._config, offset)
        grown = grown_topics(offset, joined)
        older = [known for known in offset.next if known[0] in grown]
        unknown = [known for known in older if known not in self._first]
        self._first.update(self._cluster.offsets(dict.fromkeys(unknown, LATEST)))
        if any(offset.next[known] < self._first[known] for known in older):
            return offset
        self._first.clear()
        return joined
