"""What the brokers know of topics: their ids, their partitions, and which broker has each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.connection import Connections
from replicator_source_kafka.fetch_request import NO_ID
from replicator_source_kafka.ranges import Place


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the brokers know it now.

    Attributes:
        name: Its name.
        id: Its id, which differs when it is deleted and created again; empty when the brokers are too old to tell.
        leaders: Partition → the broker that has it; -1 while none does.
    """

    name: str
    id: str
    leaders: Mapping[int, int]

    @property
    def places(self) -> list[Place]:
        """Its partitions."""
        return [(self.name, partition) for partition in sorted(self.leaders)]


class Topics(Connections):
    """The topics of a cluster. Used by one thread, but for `close`.

    Args:
        config: The source's settings.

    Attributes:
        cluster_id: The cluster's own id; empty before topics were asked for.
    """

    def __init__(self, config: KafkaConfig) -> None:
        super().__init__(config)
        self.cluster_id = ""
        self._topics: dict[str, Topic] = {}
        self._pinned: dict[str, str] = {}

    def topics(self, names: Sequence[str] | None = None) -> dict[str, Topic]:
        """The topics of these names that there are; all but the brokers' own when no names are given."""
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
        """Fetch of these topics only what lies in the topic of this id, whatever has their names by now."""
        self._pinned.update(ids)

    def id_of(self, name: str) -> str:
        """The id of a topic that was pinned, or is known."""
        return self._pinned.get(name) or self._topics[name].id

    def name_of(self, topic_id: str) -> str:
        """The inverse of `id_of`."""
        return next(name for name in {*self._pinned, *self._topics} if self.id_of(name) == topic_id)

    def by_leader(self, places: Iterable[Place]) -> dict[int, dict[str, list[Place]]]:
        """Broker → topic → those of some partitions that it has, as far as was heard last.

        Raises:
            kafka.errors.LeaderNotAvailableError: When no broker has one of them.
            kafka.errors.UnknownTopicOrPartitionError: When there is no such partition.
        """
        from kafka import errors

        wanted = list(places)
        if unknown := {place[0] for place in wanted if self._leader(place) < 0}:
            self.topics(sorted(unknown))
        grouped: dict[int, dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
        for place in wanted:
            leader = self._leader(place)
            if leader < 0:
                is_there = place[0] in self._topics and place[1] in self._topics[place[0]].leaders
                kind = errors.LeaderNotAvailableError if is_there else errors.UnknownTopicOrPartitionError
                raise kind(f"{place[0]}-{place[1]}")
            grouped[leader][place[0]].append(place)
        return grouped

    def _leader(self, place: Place) -> int:
        topic = self._topics.get(place[0])
        return -1 if topic is None else topic.leaders.get(place[1], -1)

    def _forget_leaders(self) -> None:
        self._topics.clear()

    def check(self, code: int, place: Place) -> None:
        """Raise the error of an answer, if it is one; what was known of the topic's leaders is forgotten."""
        if not code:
            return
        from kafka import errors

        self._topics.pop(place[0], None)
        raise errors.for_code(code)(f"{place[0]}-{place[1]}")


def text_id(topic_id: object) -> str:
    """A topic's id as text; empty for none."""
    text = "" if topic_id is None else str(topic_id)
    return "" if text == NO_ID else text
