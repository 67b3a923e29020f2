"""What the topics hold of a position: where partitions begin and end, how large they are, what is gone, what deletes records."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

from replicator_source_kafka.client.cluster import EARLIEST, Cluster
from replicator_source_kafka.client.diagnosis import concerns_topics
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.health.retention import SETTINGS, Retention
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition

_BEGINS_SECONDS: Final = 30.0
_SIZES_SECONDS: Final = 60.0
_NEW_SIZES_SECONDS: Final = 10.0
_SETTINGS_SECONDS: Final = 300.0


class LogContents:
    """Asks for the ends each time, and for what changes slowly from time to time. Used by one thread.

    Args:
        cluster: The brokers.
        topics_seconds: For so long the list of topics stays as it was.
    """

    def __init__(self, cluster: Cluster, topics_seconds: float) -> None:
        self._cluster = cluster
        self._topics_seconds = topics_seconds
        self._asked: dict[str, float] = {}
        self._names: Sequence[str] = ()
        self._topics: Mapping[str, Topic] = {}
        self.begins: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._means: dict[TopicPartition, float] = {}
        self.retention: dict[str, Retention] = {}

    def ask(self, offset: KafkaOffset, names: Sequence[str]) -> None:
        """Look at the topics of an offset.

        Args:
            offset: The position.
            names: The topics of it that are read.

        Raises:
            kafka.errors.KafkaError: When a partition has no leader, or a broker does not answer.
        """
        if names != self._names:
            self._names, self._asked = list(names), {}
        try:
            self._ask(offset)
        except Exception as error:
            if not concerns_topics(error):
                raise
            self._asked.clear()  # a topic was deleted since they were listed
            self._ask(offset)

    def _ask(self, offset: KafkaOffset) -> None:
        if self._is_due("topics", self._topics_seconds):
            self._topics = self._cluster.topics(self._names) if self._names else {}
        there = {name for name in self._names if name in self._topics and self._is_same(offset, name)}
        partitions = [tp for tp in offset.next if tp[0] in there]
        self.ends = {tp: end.offset for tp, end in self._cluster.ends(partitions).items()}
        if self._is_due("begins", _BEGINS_SECONDS) or self.ends.keys() - self.begins.keys():
            self.begins = self._cluster.offsets(dict.fromkeys(partitions, EARLIEST))
        if self._is_due("settings", _SETTINGS_SECONDS):
            self._ask_settings(sorted(there))
        unknown = any(self.ends[tp] > self.begins[tp] and tp not in self._means for tp in partitions)
        if self._is_due("sizes", _NEW_SIZES_SECONDS if unknown else _SIZES_SECONDS):
            self._ask_sizes(partitions)

    def gone(self, offset: KafkaOffset) -> list[str]:
        """The topics that are not there any more, or are others of the same name."""
        return [name for name in self._names if name not in self._topics or not self._is_same(offset, name)]

    def forget_begins(self) -> None:
        """Ask for the beginnings again next time: records were deleted meanwhile."""
        self._asked.pop("begins", None)

    def record_bytes(self, tp: TopicPartition) -> float | None:
        """The mean size of the partition's records at the broker; None when it is not known."""
        return self._means.get(tp)

    def _is_same(self, offset: KafkaOffset, name: str) -> bool:
        known, found = offset.topics[name], self._topics[name].id
        return not known or not found or known == found

    def _is_due(self, what: str, seconds: float) -> bool:
        if time.monotonic() - self._asked.get(what, -math.inf) < seconds:
            return False
        self._asked[what] = time.monotonic()
        return True

    def _ask_settings(self, names: Sequence[str]) -> None:
        found = self._cluster.topic_settings(names, SETTINGS, skip_refused=True)
        self.retention = {name: Retention.of(settings) for name, settings in found.items()}

    def _ask_sizes(self, partitions: Sequence[TopicPartition]) -> None:
        from kafka import errors

        try:
            sizes = self._cluster.stored_bytes(partitions) if partitions else {}
        except errors.AuthorizationError:
            sizes = {}
        counts = {tp: self.ends[tp] - self.begins[tp] for tp in sizes if tp in self.ends}
        self._means |= {tp: sizes[tp] / count for tp, count in counts.items() if count > 0}
