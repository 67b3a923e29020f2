"""Checks that reading can continue at a saved offset: same topics, nothing lost, no partition added unnoticed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError, SchemaDriftError
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.client.cluster import EARLIEST, LATEST, Cluster
from replicator_source_kafka.client.diagnosis import FROM_NEW_SNAPSHOT, NEW_SNAPSHOT
from replicator_source_kafka.client.leader_epochs import truncated
from replicator_source_kafka.client.metadata import Topic
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.topics.lost_records import LostTopics, deleted, of_table
from replicator_source_kafka.topics.missed_deletes import MissedDeletes
from replicator_source_kafka.topics.selection import check_named, find_topics, partitions_of

_log = logging.getLogger(__name__)


class PositionCheck:
    """Checks positions of one reader, and remembers which topics are not read any more. Used by one thread.

    Args:
        cluster: The brokers.
        config: The source's settings.
        definition: The tables that are read; None where that is unknown, so that all records are needed.
        context: State; None where nothing is to be stored.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: KafkaConfig,
        definition: EventReaderDefinition | None = None,
        context: DeltaSourceContext | None = None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._lost = LostTopics(config, definition, context)
        self._deletes = MissedDeletes(cluster, context)

    @property
    def skipped(self) -> frozenset[str]:
        """Topics of which nothing more is read: something is wrong with them, and no table that is read concerns it."""
        return self._lost.skipped

    def read(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of some partitions that are read, in the same order."""
        return [tp for tp in partitions if tp[0] not in self.skipped]

    def check(self, offset: KafkaOffset) -> KafkaOffset:
        """Check that the topics are still those of `offset`, and hold all records after it that are needed.

        Returns:
            `offset`, past deleted records that no table needs, and past what skipped topics hold now.

        Raises:
            ReplicatorError: What `check_named` raises, and `LostTopics.meet` of what was found.
        """
        topics = find_topics(self._cluster, self._config)
        check_named(self._config, [*topics, *offset.topics])
        self._lost.topics = offset.topics
        lost = {**self._lost.of_earlier_runs(), **_replaced(self._config, topics, offset)}
        begins = self._offsets(offset, lost, EARLIEST)
        needed, offset = self._past_deleted(offset, begins)
        lost |= needed
        lost |= _cut(offset, self._offsets(offset, lost, LATEST))
        kept = {tp: epoch for tp, epoch in offset.epochs.items() if tp[0] not in lost}
        lost |= truncated(self._cluster, KafkaOffset(offset.topics, offset.next, kept))
        for name, error in _grown(self._config, topics, offset).items():
            lost.setdefault(name, error)
        lost |= self._refused(self._deletes.of(offset, offset.topics.keys() - lost.keys()))
        self._lost.meet(lost)
        return self.past_skipped(offset, topics)

    def begin(self, offset: KafkaOffset) -> None:
        """Nothing was read before `offset`, the first one, that the target has."""
        self._deletes.begin(offset)

    def check_table(self, table: TableId, offset: KafkaOffset, topics: Iterable[str]) -> None:
        """Check that no removal of a row of a table that is read from `offset` on, by itself, is gone unread.

        Raises:
            TableHistoryLostError: When one may be.
        """
        for error in self._refused(self._deletes.of(offset, topics)).values():
            raise of_table(error, table)

    def remember_ends(self, topics: Iterable[str]) -> None:
        """Remember from time to time where compacted topics end, and check that no removal of a row is gone unread.

        Raises:
            ReplicatorError: When one may be, of a table that is read.
        """
        if lost := self._refused(self._deletes.remember(set(topics) - self.skipped)):
            self._lost.topics = topics = frozenset(topics)
            self._lost.meet(lost)

    def _refused(self, missed: Mapping[str, HistoryLostError]) -> Mapping[str, HistoryLostError]:
        if self._config.on_missed_deletes == "fail":
            return missed
        for error in missed.values():
            _log.warning("%s", error.message)
        return {}

    def check_records(self, offset: KafkaOffset) -> None:
        """Check that the records before `offset` are those that were read.

        Raises:
            ReplicatorError: When a topic that is read lost some of them.
        """
        self._lost.topics = offset.topics
        epochs = {tp: offset.epochs[tp] for tp in self.read(offset.epochs)}
        self._lost.meet(truncated(self._cluster, KafkaOffset(offset.topics, offset.next, epochs)))

    def refuse(self, lost: Mapping[str, ReplicatorError]) -> None:
        """As `LostTopics.meet`, for topics of the offset that was checked last."""
        self._lost.meet(lost)

    def check_topics(self, topics: Mapping[str, Topic], offset: KafkaOffset) -> None:
        """Check that the topics are still those of `offset`, with as many partitions; their records are not looked at.

        Raises:
            ReplicatorError: When that is not so, for a topic that is read.
        """
        self._lost.topics = offset.topics
        lost = {**_replaced(self._config, topics, offset)}
        for name, error in _grown(self._config, topics, offset).items():
            lost.setdefault(name, error)
        self._lost.meet({name: error for name, error in lost.items() if name not in self.skipped})

    def past_skipped(self, offset: KafkaOffset, topics: Mapping[str, Topic]) -> KafkaOffset:
        """`offset`, past what the skipped ones of `topics` hold now, so that a run that ends at the topics' ends is not kept."""
        there = {tp for name in self.skipped if name in topics for tp in topics[name].partitions}
        wanted = [tp for tp in offset.next if tp in there]
        return offset.past(KafkaOffset({}, self._cluster.offsets(dict.fromkeys(wanted, LATEST)))) if wanted else offset

    def _offsets(
        self, offset: KafkaOffset, lost: Mapping[str, ReplicatorError], when: int
    ) -> dict[TopicPartition, int]:
        return self._cluster.offsets(dict.fromkeys((tp for tp in offset.next if tp[0] not in lost), when))

    def _past_deleted(
        self, offset: KafkaOffset, begins: Mapping[TopicPartition, int]
    ) -> tuple[dict[str, ReplicatorError], KafkaOffset]:
        """The topics that lost records to retention which may be needed; and `offset`, past the others' lost records."""
        found: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
        for tp, begin in begins.items():
            if offset.next[tp] < begin:
                found[tp[0]][tp] = begin
        lost: dict[str, ReplicatorError] = {}
        passed: dict[TopicPartition, int] = {}
        for topic, gone in found.items():
            if self._lost.have_all(topic, gone):
                passed |= gone
            else:
                tp, begin = min(gone.items())
                lost[topic] = deleted(tp, offset, begin)
        return lost, offset.past(KafkaOffset({}, passed))


def _replaced(config: KafkaConfig, topics: Mapping[str, Topic], offset: KafkaOffset) -> dict[str, ReplicatorError]:
    """Topics of the offset that no longer exist, are no longer selected, or were deleted and created again."""
    lost: dict[str, ReplicatorError] = {}
    for name, known in offset.topics.items():
        if name not in topics:
            lost[name] = _missing(config, name, offset)
        elif known and topics[name].id and topics[name].id != known:
            lost[name] = HistoryLostError(
                f"the topic {name} was deleted and created again: its records after the saved offset are unknown",
                code="RPL-3955",
                position=str(offset),
                hint=NEW_SNAPSHOT,
            )
    return lost


def _missing(config: KafkaConfig, name: str, offset: KafkaOffset) -> NeedsUserError:
    if config.wants(name):
        return NeedsUserError(
            f"the topic {name} no longer exists, or the login may no longer DESCRIBE it",
            code="RPL-3954",
            position=str(offset),
            hint="grant DESCRIBE on it; if it was deleted, take its tables out of `tables` (by `exclude`) and it out of `topics` or"
            " `topicPattern`, or `replicator reset PIPELINE`: every table is emptied and filled from what the"
            " topics have then, and a topic of the same name is read once the connector has written it",
        )
    return NeedsUserError(
        f"the topic {name} is no longer selected",
        code="RPL-3954",
        position=str(offset),
        hint="put it back into `topics` or `topicPattern`; to continue without it, take its tables out of `tables` (by `exclude`), or"
        " `replicator reset PIPELINE`: every table is emptied and filled from the topics that are selected",
    )


def _cut(offset: KafkaOffset, ends: Mapping[TopicPartition, int]) -> dict[str, ReplicatorError]:
    """Topics with a partition that ends before the offset."""
    return {
        tp[0]: HistoryLostError(
            f"{tp[0]}-{tp[1]} ends at {end}, before the saved offset {offset.next[tp]}: it was created again, or lost"
            " records",
            code="RPL-3956",
            position=str(offset),
            hint=FROM_NEW_SNAPSHOT,
        )
        for tp, end in ends.items()
        if end < offset.next[tp]
    }


def _grown(config: KafkaConfig, topics: Mapping[str, Topic], offset: KafkaOffset) -> dict[str, ReplicatorError]:
    """Topics of the offset that have more partitions, where the settings do not let these be read."""
    if config.on_new_partitions != "fail":
        return {}
    return {
        topic: SchemaDriftError(
            f"the topic {topic} has more partitions than before: keys moved to other partitions, and their older and"
            " newer changes may be read out of order",
            code="RPL-3957",
            position=str(offset),
            hint="if the topic was read to its end before partitions were added, set onNewPartitions to read; otherwise"
            f" {FROM_NEW_SNAPSHOT}",
        )
        for topic, _ in added_partitions(topics, offset)
    }


def added_partitions(topics: Mapping[str, Topic], offset: KafkaOffset) -> list[TopicPartition]:
    """Partitions that were added to topics of the offset."""
    known = {name: topic for name, topic in topics.items() if name in offset.topics}
    return [tp for tp in partitions_of(known) if tp not in offset.next]
