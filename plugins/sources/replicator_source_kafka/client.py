"""The brokers, asked directly: topics with their ids, where partitions begin and end, raw record batches.

kafka-python's connections and requests are used, its consumer is not: that makes an object of every record, keeps
offsets of its own and reads a re-created topic on as if nothing had happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replicator_sdk.errors import RetryableError
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.connection import Connections
from replicator_source_kafka.fetch_request import NO_ID, READ_COMMITTED, Fetched, Patience, fetch_request, fetched
from replicator_source_kafka.ranges import Place

EARLIEST: Final = -2
LATEST: Final = -1


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


class Cluster(Connections):
    """What the brokers know of topics and partitions. Used by one thread, but for `close`.

    Args:
        config: The source's settings.

    Attributes:
        cluster_id: The cluster's own id.
        fetch_bytes: How much a window should hold, before decompression.
    """

    def __init__(self, config: KafkaConfig) -> None:
        super().__init__(config)
        self.cluster_id = ""
        self.fetch_bytes = config.own_number("fetch.max.bytes")
        self._wait_ms = config.own_number("fetch.max.wait.ms")
        self._min_bytes = config.own_number("fetch.min.bytes")
        self._topics: dict[str, Topic] = {}
        self._pinned: dict[str, str] = {}

    # ------------------------------------------------------------ topics

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
                found[topic.name] = Topic(topic.name, _text_id(topic.topic_id), leaders)
        self._topics.update(found)
        return found

    def pin(self, ids: Mapping[str, str]) -> None:
        """Fetch of these topics only what lies in the topic of this id, whatever has their names by now."""
        self._pinned.update(ids)

    def _leader(self, place: Place) -> int:
        """Which broker has a partition, as far as was heard last."""
        topic = self._topics.get(place[0])
        if topic is None or topic.leaders.get(place[1], -1) < 0:
            topic = self.topics([place[0]]).get(place[0])
        leader = -1 if topic is None else topic.leaders.get(place[1], -1)
        if leader < 0:
            raise _no_leader(place)
        return leader

    def _by_leader(self, places: Iterable[Place]) -> dict[int, dict[str, list[Place]]]:
        grouped: dict[int, dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
        for place in places:
            grouped[self._leader(place)][place[0]].append(place)
        return grouped

    # ------------------------------------------------------------ beginnings and ends

    def offsets(self, when: Mapping[Place, int]) -> dict[Place, int]:
        """For each partition the offset at a time: `EARLIEST`, `LATEST` (the last stable one), or that of the first
        record not older than so many milliseconds since 1970; the end when there is none.
        """
        if not when:
            return {}
        found = self._listed(when)
        late = {place: LATEST for place, offset in found.items() if offset < 0}
        return {**found, **self._listed(late)} if late else found

    def _listed(self, when: Mapping[Place, int]) -> dict[Place, int]:
        from kafka.protocol.consumer import ListOffsetsRequest

        kind = ListOffsetsRequest.ListOffsetsTopic
        requests = {}
        for leader, topics in self._by_leader(when).items():
            asked = [
                kind(
                    name=name,
                    partitions=[
                        kind.ListOffsetsPartition(
                            partition_index=place[1], current_leader_epoch=-1, timestamp=when[place]
                        )
                        for place in places
                    ],
                )
                for name, places in topics.items()
            ]
            request = ListOffsetsRequest(isolation_level=READ_COMMITTED, topics=asked, min_version=2)
            requests[leader] = request
        found = {}
        for response in self.ask_all(requests):
            for topic in response.topics:
                for part in topic.partitions:
                    self._check(part.error_code, (topic.name, part.partition_index))
                    found[topic.name, part.partition_index] = int(part.offset)
        return found

    # ------------------------------------------------------------ records

    def fetch(self, begin: Mapping[Place, int], *, max_bytes: int = 0, wait_ms: int | None = None) -> list[Fetched]:
        """What there is of some partitions from some offsets on, committed transactions only (`read_committed`).

        Waits until there is something, or as long as the settings say. What comes is bounded by `max_bytes`, or the
        settings', for each broker; the partitions named first come first.
        """
        wait_ms = self._wait_ms if wait_ms is None else wait_ms
        patience = Patience(max_bytes or self.fetch_bytes, self._min_bytes, wait_ms)
        requests = {}
        for leader, topics in self._by_leader(begin).items():
            requests[leader] = fetch_request(topics, {name: self._id(name) for name in topics}, begin, patience)
        found = []
        for response in self.ask_all(requests):
            self._check(response.error_code or 0, ("", -1))
            for topic in response.responses:
                name = topic.topic or self._name_of(_text_id(topic.topic_id))
                for part in topic.partitions:
                    place = (name, part.partition_index)
                    self._check(part.error_code, place)
                    found.append(fetched(place, part, begin[place]))
        return found

    def _id(self, name: str) -> str:
        return self._pinned.get(name) or self._topics[name].id

    def _name_of(self, topic_id: str) -> str:
        return next(name for name in {*self._pinned, *self._topics} if self._id(name) == topic_id)

    # ------------------------------------------------------------ settings of topics, groups

    def topic_settings(self, names: Sequence[str], wanted: Sequence[str]) -> dict[str, dict[str, str]]:
        """Some settings of some topics."""
        from kafka import errors
        from kafka.protocol.admin import DescribeConfigsRequest

        topic_resource = 2
        kind = DescribeConfigsRequest.DescribeConfigsResource
        asked = [kind(resource_type=topic_resource, resource_name=n, configuration_keys=list(wanted)) for n in names]
        response = self.ask(DescribeConfigsRequest(resources=asked, include_synonyms=False))
        found = {}
        for result in response.results:
            if result.error_code:
                raise errors.for_code(result.error_code)(result.resource_name)
            found[result.resource_name] = {entry.name: entry.value for entry in result.configs}
        return found

    # ------------------------------------------------------------ errors

    def _check(self, code: int, place: Place) -> None:
        """Raise the error of an answer; forget what was known of the topic's leaders."""
        if not code:
            return
        from kafka import errors

        self._topics.pop(place[0], None)
        raise errors.for_code(code)(f"{place[0]}-{place[1]}")


def _text_id(topic_id: object) -> str:
    text = "" if topic_id is None else str(topic_id)
    return "" if text == NO_ID else text


def _no_leader(place: Place) -> RetryableError:
    return RetryableError(
        f"no broker has partition {place[1]} of {place[0]} now",
        code="RPL-3968",
        hint="the attempt is repeated; if it stays, look at the brokers",
    )
