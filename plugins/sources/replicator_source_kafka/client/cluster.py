"""Requests to the brokers: where partitions and leader epochs begin and end, and raw record batches.

kafka-python's connections and requests are used, its consumer is not: the consumer creates an object for every record,
keeps its own offsets, and continues in a re-created topic without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from replicator_source_kafka.client.fetch_request import READ_COMMITTED, Fetched, FetchLimits, fetch_request, fetched
from replicator_source_kafka.client.metadata import TopicMetadata, text_id
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.partition_range import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class EpochAt:
    """A leader epoch of a partition.

    Attributes:
        offset: A Kafka offset.
        epoch: The leader epoch there; -1 where it is unknown.
    """

    offset: int
    epoch: int


class Cluster(TopicMetadata):
    """Reads partitions from whichever brokers lead them. Used by one thread, except `close`.

    A request is repeated when a partition moves to another broker meanwhile.

    Args:
        config: The source's settings.

    Attributes:
        fetch_bytes: How many bytes a window should hold, before decompression.
    """

    def __init__(self, config: KafkaConfig) -> None:
        super().__init__(config)
        self.fetch_bytes = config.own_number("fetch.max.bytes")
        self._wait_ms = config.own_number("fetch.max.wait.ms")
        self._min_bytes = config.own_number("fetch.min.bytes")

    # ------------------------------------------------------------ beginnings and ends

    def offsets(self, when: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of each partition at a point in time.

        The point is `EARLIEST`, `LATEST` (the last stable offset), or milliseconds since 1970: the first record that is
        not older, or the end of the partition if all are older.
        """
        if not when:
            return {}
        found = self.with_retries(lambda: self._listed(when))
        late = {tp: LATEST for tp, at in found.items() if at.offset < 0}
        found |= self.with_retries(lambda: self._listed(late)) if late else {}
        return {tp: at.offset for tp, at in found.items()}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, EpochAt]:
        """The last stable offset of each partition, and its leader's epoch; -1 where the broker is too old for epochs."""
        when = dict.fromkeys(partitions, LATEST)
        return self.with_retries(lambda: self._listed(when)) if when else {}

    def _listed(self, when: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochAt]:
        from kafka.protocol.consumer import ListOffsetsRequest

        requests = {
            leader: ListOffsetsRequest(
                isolation_level=READ_COMMITTED,
                topics=[_offsets_wanted(name, partitions, when) for name, partitions in topics.items()],
                min_version=2,
            )
            for leader, topics in self.by_leader(when).items()
        }
        found = {}
        for response in self.ask_all(requests):
            for topic in response.topics:
                for part in topic.partitions:
                    self.check(part.error_code, (topic.name, part.partition_index))
                    found[topic.name, part.partition_index] = EpochAt(int(part.offset), int(part.leader_epoch))
        return found

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the records of an epoch and of all epochs before it end, by partition.

        -1 for an epoch that is later than all that the leader knows. Empty when the brokers are too old for the request.
        """
        from kafka import errors

        try:
            return self.with_retries(lambda: self._epoch_ends(epochs)) if epochs else {}
        except errors.IncompatibleBrokerVersion:
            return {}

    def _epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        from kafka.protocol.consumer import OffsetForLeaderEpochRequest

        requests = {
            leader: OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[_epochs_wanted(name, partitions, epochs) for name, partitions in topics.items()],
            )
            for leader, topics in self.by_leader(epochs).items()
        }
        found = {}
        for response in self.ask_all(requests):
            for topic in response.topics:
                for part in topic.partitions:
                    self.check(part.error_code, (topic.topic, part.partition))
                    found[topic.topic, part.partition] = int(part.end_offset)
        return found

    # ------------------------------------------------------------ records

    def fetch(
        self, begin: Mapping[TopicPartition, int], *, max_bytes: int = 0, wait_ms: int | None = None
    ) -> list[Fetched]:
        """Record batches of some partitions from the given offsets, committed transactions only (`read_committed`).

        Waits for data as long as the settings say. Each broker's answer is limited to `max_bytes`, or to the settings'
        `fetch.max.bytes`. Brokers fill the answer in the order of the partitions in `begin`.
        """
        wait_ms = self._wait_ms if wait_ms is None else wait_ms
        limits = FetchLimits(max_bytes or self.fetch_bytes, self._min_bytes, wait_ms)
        return self.with_retries(lambda: self._fetched(begin, limits))

    def _fetched(self, begin: Mapping[TopicPartition, int], limits: FetchLimits) -> list[Fetched]:
        requests = {
            leader: fetch_request(topics, {name: self.id_of(name) for name in topics}, begin, limits)
            for leader, topics in self.by_leader(begin).items()
        }
        found = []
        for response in self.ask_all(requests):
            self.check(response.error_code or 0, ("", -1))
            for topic in response.responses:
                name = topic.topic or self.name_of(text_id(topic.topic_id))
                for part in topic.partitions:
                    tp = (name, part.partition_index)
                    self.check(part.error_code, tp)
                    found.append(fetched(tp, part, begin[tp]))
        return found


def _offsets_wanted(name: str, partitions: list[TopicPartition], when: Mapping[TopicPartition, int]) -> Any:
    """One topic's part of a request for offsets."""
    from kafka.protocol.consumer import ListOffsetsRequest

    kind = ListOffsetsRequest.ListOffsetsTopic
    return kind(
        name=name,
        partitions=[
            kind.ListOffsetsPartition(partition_index=tp[1], current_leader_epoch=-1, timestamp=when[tp])
            for tp in partitions
        ],
    )


def _epochs_wanted(name: str, partitions: list[TopicPartition], epochs: Mapping[TopicPartition, int]) -> Any:
    """One topic's part of a request for the ends of epochs."""
    from kafka.protocol.consumer import OffsetForLeaderEpochRequest

    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return kind(
        topic=name,
        partitions=[
            kind.OffsetForLeaderPartition(partition=tp[1], current_leader_epoch=-1, leader_epoch=epochs[tp])
            for tp in partitions
        ],
    )
