"""The brokers, asked directly: topics with their ids, where partitions begin and end, raw record batches.

kafka-python's connections and requests are used, its consumer is not: that makes an object of every record, keeps
offsets of its own and reads a re-created topic on as if nothing had happened.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from replicator_sdk.errors import RetryableError
from replicator_source_kafka.client_settings import client_arguments
from replicator_source_kafka.config import KafkaConfig

if TYPE_CHECKING:
    from kafka.net.manager import KafkaConnectionManager

EARLIEST: Final = -2
LATEST: Final = -1

_READ_COMMITTED: Final = 1
_BOOTSTRAP_MS: Final = 15_000
_BY_ID: Final = 13
_LEAST_SHARE: Final = 1 << 20
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"

Place = tuple[str, int]
"""A partition: topic and number."""


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


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a broker sent of one partition.

    Attributes:
        place: The partition.
        begin: Where reading was asked to begin.
        data: Record batches; the last may be cut off.
        aborted: (producer, first offset) of transactions in it that were rolled back.
        stable: The last stable offset: up to there everything is decided.
    """

    place: Place
    begin: int
    data: bytes
    aborted: tuple[tuple[int, int], ...]
    stable: int


class Cluster:
    """A connection to all brokers. Used by one thread, but for `close`.

    Args:
        config: The source's settings.

    Attributes:
        cluster_id: The cluster's own id.
        fetch_bytes: How much a window should hold, before decompression.
    """

    def __init__(self, config: KafkaConfig) -> None:
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector

        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what it would say is raised as well
        arguments = client_arguments(config.kafka)
        arguments["bootstrap_servers"] = config.bootstrap_servers.split(",")
        self.fetch_bytes = config.own_number("fetch.max.bytes")
        self._wait_ms = config.own_number("fetch.max.wait.ms")
        self._min_bytes = config.own_number("fetch.min.bytes")
        self._timeout_ms = int(arguments.get("request_timeout_ms", 30_000))
        self.cluster_id = ""
        self._lock = threading.Lock()
        self._closed = False
        self._topics: dict[str, Topic] = {}
        self._pinned: dict[str, str] = {}
        self._net = NetworkSelector(**arguments)
        arguments["receive_message_max_bytes"] = max(100_000_000, 2 * self.fetch_bytes)
        self._manager: KafkaConnectionManager = KafkaConnectionManager(self._net, **arguments)
        self._net.start()
        try:
            self._manager.bootstrap(min(_BOOTSTRAP_MS, self._timeout_ms))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections and end their thread; what waits for an answer fails. From any thread, also twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._manager.close()
                self._net.close()

    # ------------------------------------------------------------ topics

    def topics(self, names: Sequence[str] | None = None) -> dict[str, Topic]:
        """The topics of these names that there are; all but the brokers' own when no names are given."""
        from kafka import errors
        from kafka.protocol.metadata import MetadataRequest

        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        response = self._ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
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
            request = ListOffsetsRequest(isolation_level=_READ_COMMITTED, topics=asked, min_version=2)
            requests[leader] = request
        found = {}
        for response in self._ask_all(requests):
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
        requests = {
            leader: self._fetch_request(topics, begin, max_bytes or self.fetch_bytes, wait_ms)
            for leader, topics in self._by_leader(begin).items()
        }
        found = []
        for response in self._ask_all(requests):
            self._check(response.error_code or 0, ("", -1))
            for topic in response.responses:
                name = topic.topic or self._name_of(_text_id(topic.topic_id))
                found += [self._fetched((name, part.partition_index), part, begin) for part in topic.partitions]
        return found

    def _fetch_request(
        self, topics: Mapping[str, Sequence[Place]], begin: Mapping[Place, int], max_bytes: int, wait_ms: int | None
    ) -> Any:
        """Topics are asked for by id where they have one, so that a re-created one is refused, not read on."""
        from kafka.protocol.consumer import FetchRequest

        kind = FetchRequest.FetchTopic
        share = max(_LEAST_SHARE, max_bytes // sum(map(len, topics.values())))
        asked = []
        for name, places in topics.items():
            parts = [
                kind.FetchPartition(
                    partition=place[1],
                    current_leader_epoch=-1,
                    fetch_offset=begin[place],
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=min(share, max_bytes),
                )
                for place in places
            ]
            asked.append(kind(topic=name, topic_id=uuid.UUID(self._id(name) or _NO_ID), partitions=parts))
        by_id = all(map(self._id, topics))
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self._wait_ms if wait_ms is None else wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=max_bytes,
            isolation_level=_READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=asked,
            forgotten_topics_data=[],
            rack_id="",
            min_version=4,
            max_version=_BY_ID if by_id else _BY_ID - 1,
        )

    def _fetched(self, place: Place, part: Any, begin: Mapping[Place, int]) -> Fetched:
        self._check(part.error_code, place)
        aborted = tuple((t.producer_id, t.first_offset) for t in part.aborted_transactions or ())
        stable = part.last_stable_offset if part.last_stable_offset >= 0 else part.high_watermark
        return Fetched(place, begin[place], bytes(part.records or b""), aborted, int(stable))

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
        response = self._ask(DescribeConfigsRequest(resources=asked, include_synonyms=False))
        found = {}
        for result in response.results:
            if result.error_code:
                raise errors.for_code(result.error_code)(result.resource_name)
            found[result.resource_name] = {entry.name: entry.value for entry in result.configs}
        return found

    # ------------------------------------------------------------ asking

    def _ask(self, request: Any) -> Any:
        return self._run(lambda: self._manager.send(request))

    def _ask_all(self, requests: Mapping[int, Any]) -> list[Any]:
        """Ask several brokers at once."""

        async def ask() -> list[Any]:
            waiting = [self._manager.send(request, node_id=node) for node, request in requests.items()]
            return [await answer for answer in waiting]

        return list(self._run(ask))

    def _run(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await ask()

        return self._manager.run(run)

    def _check(self, code: int, place: Place) -> None:
        """Raise the error of an answer; forget what was known of the topic's leaders."""
        if not code:
            return
        from kafka import errors

        self._topics.pop(place[0], None)
        raise errors.for_code(code)(f"{place[0]}-{place[1]}")


def _text_id(topic_id: object) -> str:
    text = "" if topic_id is None else str(topic_id)
    return "" if text == _NO_ID else text


def _no_leader(place: Place) -> RetryableError:
    return RetryableError(
        f"no broker has partition {place[1]} of {place[0]} now",
        code="RPL-3968",
        hint="the attempt is repeated; if it stays, look at the brokers",
    )
