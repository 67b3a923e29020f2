"""Topics and partitions that are added while a pipeline runs."""

from __future__ import annotations

from collections.abc import Mapping

from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.topics.position_check import PositionCheck, added_partitions
from replicator_source_kafka.topics.selection import find_topics, partitions_of


def grown_topics(offset: KafkaOffset, later: KafkaOffset) -> set[str]:
    """Topics of `offset` that have more partitions at `later`."""
    return {topic for topic, partition in later.next if (topic, partition) not in offset.next} & set(offset.topics)


class NewPartitions:
    """Adds new topics and partitions to an offset. Used by one thread.

    When a topic gets more partitions, keys move to other partitions. What the older partitions held when that was noticed
    is read first, so that a key's older changes come before its newer ones in another partition.

    Args:
        cluster: The brokers.
        config: The source's settings.
        check: Checks the topics, and knows which of them are not read.
    """

    def __init__(self, cluster: Cluster, config: KafkaConfig, check: PositionCheck) -> None:
        self._cluster = cluster
        self._config = config
        self._check = check
        self._first: dict[TopicPartition, int] = {}

    def join(self, offset: KafkaOffset) -> KafkaOffset:
        """`offset`, and the beginning of what was added since: topics that match, partitions if the settings allow it.

        Of topics that are not read, also what they hold now. `offset` itself while older partitions are still to be read.

        Raises:
            ReplicatorError: What `PositionCheck.check_topics` raises.
        """
        topics = find_topics(self._cluster, self._config)
        self._check.check_topics(topics, offset)
        offset = self._check.past_skipped(offset, topics)
        joined = self._joined(topics, offset)
        older = self._check.read(known for known in offset.next if known[0] in grown_topics(offset, joined))
        unknown = [known for known in older if known not in self._first]
        self._first.update(self._cluster.offsets(dict.fromkeys(unknown, LATEST)))
        if any(offset.next[known] < self._first[known] for known in older):
            return offset
        self._first.clear()
        return joined

    def _joined(self, topics: Mapping[str, Topic], offset: KafkaOffset) -> KafkaOffset:
        """The beginning also of partitions of topics that are not read: a table of theirs may be read again, from there."""
        new = {name: topic for name, topic in topics.items() if name not in offset.topics}
        partitions = [*added_partitions(topics, offset), *partitions_of(new)]
        ids = {name: topic.id for name, topic in new.items()}
        begins = self._cluster.offsets(dict.fromkeys(partitions, EARLIEST))
        return offset.joined(ids, begins) if partitions else offset
