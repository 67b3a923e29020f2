"""Finds what one table lacks between two offsets, in a part of the topics that the other tables have passed."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.schema import TableId
from replicator_source_kafka.client.cluster import EARLIEST, Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.topics.lost_records import deleted, of_table, only_tables
from replicator_source_kafka.topics.new_partitions import grown_topics
from replicator_source_kafka.topics.position_check import PositionCheck


@dataclass(frozen=True)
class TableRecords:
    """Used by one thread.

    Attributes:
        cluster: The brokers.
        config: The source's settings.
        known: All tables that are known and selected.
    """

    cluster: Cluster
    config: KafkaConfig
    known: Collection[TableId]

    def between(self, table: TableId, start: KafkaOffset, end: KafkaOffset) -> tuple[KafkaOffset, KafkaOffset] | None:
        """Where to begin, and where to end at most; equal in all partitions that certainly hold nothing of the table. None when
        nothing is between the two offsets.

        Partitions that were added to a topic in between follow when the older ones are read, as they did for the other tables.

        Raises:
            TableHistoryLostError: When a topic that may hold changes of the table is another one, or lost records after `start`.
            ReplicatorError: When it has more partitions, and these are not to be read; as the brokers fail.
        """
        try:
            return self._between(table, start, end)
        except HistoryLostError as error:
            raise of_table(error, table) from error

    def _between(self, table: TableId, start: KafkaOffset, end: KafkaOffset) -> tuple[KafkaOffset, KafkaOffset] | None:
        upto = _past(start, end)
        if grown_topics(start, upto):
            older = KafkaOffset(start.topics, {tp: upto.next[tp] for tp in start.next}, upto.epochs)
            upto = older if older != start else upto
        if upto == start:
            return None
        own, read = topics_of(self.config, self.known, table, upto.topics)
        check = PositionCheck(self.cluster, self.config)
        check.check(_of_topics(start, own & start.topics.keys()))
        check.check(_of_topics(upto, own))
        begin = {tp: start.next.get(tp, 0) if tp[0] in read else there for tp, there in upto.next.items()}
        new = [tp for tp in begin if tp not in start.next and tp[0] in read]
        for tp, earliest in self.cluster.offsets(dict.fromkeys(new, EARLIEST)).items():
            if earliest > 0 and tp[0] in own:
                raise deleted(tp, KafkaOffset(upto.topics, begin), earliest)
            begin[tp] = min(earliest, upto.next[tp])
        return KafkaOffset(upto.topics, begin, start.epochs), upto


def topics_of(
    config: KafkaConfig, known: Collection[TableId], table: TableId, topics: Collection[str]
) -> tuple[set[str], set[str]]:
    """The topics that hold the table's changes, as far as is certain, else all that may; and all that do not certainly hold another one's.

    Args:
        config: The source's settings.
        known: All tables that are known and selected.
        table: The table.
        topics: All topics that are read.
    """
    if table == quarantine.TABLE:
        return set(topics), set(topics)
    owners = only_tables(config, topics, known, topics)
    read = {topic for topic in topics if owners.get(topic, table) == table}
    return {topic for topic, owner in owners.items() if owner == table} or read, read


def _past(start: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
    """`end`, in no partition before `start`."""
    later: dict[TopicPartition, int] = {tp: max(there, start.next.get(tp, there)) for tp, there in end.next.items()}
    kept = {tp: epoch for tp, epoch in end.epochs.items() if later[tp] == end.next[tp]}
    return KafkaOffset({**start.topics, **end.topics}, {**start.next, **later}, {**start.epochs, **kept})


def _of_topics(offset: KafkaOffset, topics: Container[str]) -> KafkaOffset:
    return KafkaOffset(
        {topic: known for topic, known in offset.topics.items() if topic in topics},
        {tp: there for tp, there in offset.next.items() if tp[0] in topics},
        {tp: epoch for tp, epoch in offset.epochs.items() if tp[0] in topics},
    )
