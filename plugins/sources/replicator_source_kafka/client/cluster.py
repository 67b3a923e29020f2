"""Requests to the brokers: where partitions and leader epochs begin and end, and raw record batches.

kafka-python's connections and requests are used, its consumer is not: the consumer creates an object for every record,
keeps its own offsets, and continues in a re-created topic without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from replicator_source_kafka.client.connection import USUAL, Patience
from replicator_source_kafka.client.fetch_request import READ_COMMITTED, Fetched, FetchLimits, fetch_request, fetched
from replicator_source_kafka.client.metadata import TopicMetadata, text_id
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.partition_range import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
_TOPIC: Final = 2  # the kind of resource, in the protocol
_TOPICS_AT_ONCE: Final = 500


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
        patience: How long brokers are waited for.

    Attributes:
        fetch_bytes: How many bytes a window should hold, before decompression.
    """

    def __init__(self, config: KafkaConfig, patience: Patience = USUAL) -> None:
        super().__init__(config, patience)
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

    # ------------------------------------------------------------ what is stored

    def stored_bytes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How large the log of each partition is at its leader; those are left out of which a broker does not say it."""
        return self.with_retries(lambda: self._stored_bytes(list(partitions)))

    def _stored_bytes(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        from kafka.protocol.admin import DescribeLogDirsRequest

        kind = DescribeLogDirsRequest.DescribableLogDirTopic
        requests = {
            leader: DescribeLogDirsRequest(
                topics=[kind(topic=name, partitions=[tp[1] for tp in here]) for name, here in topics.items()]
            )
            for leader, topics in self.by_leader(partitions).items()
        }
        return {
            (topic.name, part.partition_index): int(part.partition_size)
            for response in self.ask_all(requests)
            for folder in response.results
            if not folder.error_code
            for topic in folder.topics
            for part in topic.partitions
            if not part.is_future_key
        }

    def topic_settings(
        self, names: Sequence[str], wanted: Sequence[str], *, skip_refused: bool = False
    ) -> dict[str, dict[str, str]]:
        """The brokers' values of the `wanted` settings: topic → setting → value.

        Args:
            names: The topics.
            wanted: The settings.
            skip_refused: Leave topics out whose settings the login may not see; otherwise the broker's error is raised.
        """
        from kafka import errors
        from kafka.protocol.admin import DescribeConfigsRequest

        kind = DescribeConfigsRequest.DescribeConfigsResource
        asked = [kind(resource_type=_TOPIC, resource_name=name, configuration_keys=list(wanted)) for name in names]
        found = {}
        for first in range(0, len(asked), _TOPICS_AT_ONCE):
            some = asked[first : first + _TOPICS_AT_ONCE]
            for result in self.ask(DescribeConfigsRequest(resources=some, include_synonyms=False)).results:
                if not result.error_code:
                    found[result.resource_name] = {entry.name: entry.value for entry in result.configs}
                elif not skip_refused:
                    raise errors.for_code(result.error_code)(result.resource_name)
        return found

    # ------------------------------------------------------------ records

    def fetch(
        self,
        begin: Mapping[TopicPartition, int],
        *,
        max_bytes: int = 0,
        wait_ms: int | None = None,
        partition_bytes: int | None = None,
    ) -> list[Fetched]:
        """Record batches of some partitions from the given offsets, committed transactions only (`read_committed`).

        Waits for data as long as the settings say. Each broker's answer is limited to `max_bytes`, or to the settings'
        `fetch.max.bytes`. Brokers fill the answer in the order of the partitions in `begin`. With `partition_bytes` the first partition of
        each broker has at least a batch, and another none where its first batch is larger than that.
        """
        wait_ms = self._wait_ms if wait_ms is None else wait_ms
        limits = FetchLimits(max_bytes or self.fetch_bytes, self._min_bytes, wait_ms, partition_bytes)
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
