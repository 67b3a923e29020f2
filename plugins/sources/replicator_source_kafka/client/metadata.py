"""Metadata of topics: their ids, their partitions, and which broker leads each partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replicator_source_kafka.client.connection import USUAL, BrokerConnections, Patience
from replicator_source_kafka.client.fetch_request import NO_ID
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.partition_range import TopicPartition


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic, as the brokers describe it now.

    Attributes:
        name: Its name.
        id: Its id, which changes when the topic is deleted and created again; empty when the brokers are too old for ids.
        leaders: Partition → the broker that leads it; -1 while no broker does.
    """

    name: str
    id: str
    leaders: Mapping[int, int]

    @property
    def partitions(self) -> list[TopicPartition]:
        """Its partitions."""
        return [(self.name, partition) for partition in sorted(self.leaders)]


class TopicMetadata(BrokerConnections):
    """The topics of a cluster. Used by one thread, except `close`.

    Args:
        config: The source's settings.
        patience: How long brokers are waited for.

    Attributes:
        cluster_id: The cluster's id; empty before the first request for topics.
    """

    def __init__(self, config: KafkaConfig, patience: Patience = USUAL) -> None:
        super().__init__(config, patience)
        self.cluster_id = ""
        self._topics: dict[str, Topic] = {}
        self._pinned: dict[str, str] = {}

    def topics(self, names: Sequence[str] | None = None) -> dict[str, Topic]:
        """The existing topics with these names; without names, all topics except internal ones."""
        from kafka import errors
        from kafka.protocol.metadata import MetadataRequest

        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        response = self.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        self.cluster_id = response.cluster_id or ""
        found = {}
        for topic in response.topics:
            if topic.error_code == errors.UnknownTopicOrPartitionError.errno:
                continue
            if topic.error_code and topic.error_code != errors.LeaderNotAvailableError.errno:
                raise errors.for_code(topic.error_code)(topic.name)
            if not topic.is_internal or names is not None:
                leaders = {p.partition_index: p.leader_id for p in topic.partitions}
                found[topic.name] = Topic(topic.name, text_id(topic.topic_id), leaders)
        self._topics.update(found)
        return found

    def pin(self, ids: Mapping[str, str]) -> None:
        """Read only from topics with these ids, even if topics of the same names were created again."""
        self._pinned.update(ids)

    def id_of(self, name: str) -> str:
        """The id of a topic that is pinned or known."""
        return self._pinned.get(name) or self._topics[name].id

    def name_of(self, topic_id: str) -> str:
        """The inverse of `id_of`."""
        return next(name for name in {*self._pinned, *self._topics} if self.id_of(name) == topic_id)

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, dict[str, list[TopicPartition]]]:
        """Broker → topic → the partitions it leads, according to the latest metadata.

        Raises:
            kafka.errors.LeaderNotAvailableError: When a partition has no leader.
            kafka.errors.UnknownTopicOrPartitionError: When a partition does not exist.
        """
        from kafka import errors

        wanted = list(partitions)
        if unknown := {tp[0] for tp in wanted if self._leader(tp) < 0}:
            self.topics(sorted(unknown))
        grouped: dict[int, dict[str, list[TopicPartition]]] = defaultdict(lambda: defaultdict(list))
        for tp in wanted:
            leader = self._leader(tp)
            if leader < 0:
                is_there = tp[0] in self._topics and tp[1] in self._topics[tp[0]].leaders
                kind = errors.LeaderNotAvailableError if is_there else errors.UnknownTopicOrPartitionError
                raise kind(f"{tp[0]}-{tp[1]}")
            grouped[leader][tp[0]].append(tp)
        return grouped

    def _leader(self, tp: TopicPartition) -> int:
        topic = self._topics.get(tp[0])
        return -1 if topic is None else topic.leaders.get(tp[1], -1)

    def _forget_leaders(self) -> None:
        self._topics.clear()

    def check(self, code: int, tp: TopicPartition) -> None:
        """Raise the error of an error code other than 0, and forget the topic's leaders."""
        if not code:
            return
        from kafka import errors

        self._topics.pop(tp[0], None)
        raise errors.for_code(code)(f"{tp[0]}-{tp[1]}")


def text_id(topic_id: object) -> str:
    """A topic's id as text; empty without an id."""
    text = "" if topic_id is None else str(topic_id)
    return "" if text == NO_ID else text
