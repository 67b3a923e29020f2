"""The brokers, asked directly: where partitions begin and end, raw record batches.

kafka-python's connections and requests are used, its consumer is not: that makes an object of every record, keeps
offsets of its own and reads a re-created topic on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.fetch_request import READ_COMMITTED, Fetched, Patience, fetch_request, fetched
from replicator_source_kafka.ranges import Place
from replicator_source_kafka.topics import Topics, text_id

EARLIEST: Final = -2
LATEST: Final = -1


class Cluster(Topics):
    """The records of partitions, whichever brokers have them. Used by one thread, but for `close`.

    Partitions that move from one broker to another while they are asked for are asked for again.

    Args:
        config: The source's settings.

    Attributes:
        fetch_bytes: How much a window should hold, before decompression.
    """

    def __init__(self, config: KafkaConfig) -> None:
        super().__init__(config)
        self.fetch_bytes = config.own_number("fetch.max.bytes")
        self._wait_ms = config.own_number("fetch.max.wait.ms")
        self._min_bytes = config.own_number("fetch.min.bytes")

    # ------------------------------------------------------------ beginnings and ends

    def offsets(self, when: Mapping[Place, int]) -> dict[Place, int]:
        """For each partition the offset at a time: `EARLIEST`, `LATEST` (the last stable one), or that of the first
        record not older than so many milliseconds since 1970; the end when there is none.
        """
        if not when:
            return {}
        found = self.persistently(lambda: self._listed(when))
        late = {place: LATEST for place, offset in found.items() if offset < 0}
        return {**found, **self.persistently(lambda: self._listed(late))} if late else found

    def _listed(self, when: Mapping[Place, int]) -> dict[Place, int]:
        from kafka.protocol.consumer import ListOffsetsRequest

        requests = {
            leader: ListOffsetsRequest(
                isolation_level=READ_COMMITTED,
                topics=[_offsets_wanted(name, places, when) for name, places in topics.items()],
                min_version=2,
            )
            for leader, topics in self.by_leader(when).items()
        }
        found = {}
        for response in self.ask_all(requests):
            for topic in response.topics:
                for part in topic.partitions:
                    self.check(part.error_code, (topic.name, part.partition_index))
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
        return self.persistently(lambda: self._fetched(begin, patience))

    def _fetched(self, begin: Mapping[Place, int], patience: Patience) -> list[Fetched]:
        requests = {
            leader: fetch_request(topics, {name: self.id_of(name) for name in topics}, begin, patience)
            for leader, topics in self.by_leader(begin).items()
        }
        found = []
        for response in self.ask_all(requests):
            self.check(response.error_code or 0, ("", -1))
            for topic in response.responses:
                name = topic.topic or self.name_of(text_id(topic.topic_id))
                for part in topic.partitions:
                    place = (name, part.partition_index)
                    self.check(part.error_code, place)
                    found.append(fetched(place, part, begin[place]))
        return found


def _offsets_wanted(name: str, places: list[Place], when: Mapping[Place, int]) -> Any:
    """The part of a request that is about one topic."""
    from kafka.protocol.consumer import ListOffsetsRequest

    kind = ListOffsetsRequest.ListOffsetsTopic
    return kind(
        name=name,
        partitions=[
            kind.ListOffsetsPartition(partition_index=place[1], current_leader_epoch=-1, timestamp=when[place])
            for place in places
        ],
    )
