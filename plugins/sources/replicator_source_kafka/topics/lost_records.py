"""Decides what follows where a topic is gone, was replaced, lost records, or got partitions: its table stops, or the run ends.

Where it is certain which table's records a topic holds, what is wrong with the topic concerns that table only. The table stops, and
nothing more is read of the topic: a table that is not known yet is not created without its first records. Where that is not certain,
any table may lack changes, and the run ends.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError, ReplicatorError, TableHistoryLostError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.client.diagnosis import NEW_SNAPSHOT, OWN_PIPELINE, REFILL_TABLE
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.flat.table_name import table_of_topic
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.tables.topic_tables import tables_by_topic
from replicator_source_kafka.topics.missed_deletes import MISSED

register("kafka.lost_topics.found", "kafka.lost_topics.kept")

_DELETED = "RPL-3953"
_KEY: Final = "lost-topics"


def only_table_of(
    config: KafkaConfig, topic: str, known: Collection[TableId], topics: Collection[str]
) -> TableId | None:
    """The only table whose records a topic can hold; None where that is not certain.

    Args:
        config: The source's settings.
        topic: The topic.
        known: All tables that are known and selected.
        topics: All topics that are read.
    """
    return only_tables(config, [topic], known, topics).get(topic)


def only_tables(
    config: KafkaConfig, wanted: Collection[str], known: Collection[TableId], topics: Collection[str]
) -> dict[str, TableId]:
    """The same of several topics; those of which it is not certain are left out."""
    if config.routes_records:
        return {}
    if config.names_tables:
        owners = tables_by_topic(_without_quarantine(known), topics) or {}
        return {topic: owners[topic] for topic in wanted if topic in owners and topic != config.transaction_topic}
    return {t: table_of_topic(t, config.table_from_topic) for t in wanted if t != config.transaction_topic}


def deleted(tp: TopicPartition, offset: KafkaOffset, begin: int) -> HistoryLostError:
    """The error of a partition whose retention deleted records; it concerns all tables unless one is certain."""
    there = offset.next[tp]
    return HistoryLostError(
        f"{tp[0]}-{tp[1]} now begins at {begin}: retention deleted {begin - there} offsets from {there} on"
        " that were not read",
        code=_DELETED,
        position=str(offset),
        hint=f"{NEW_SNAPSHOT}; and raise retention.ms of the topic",
    )


def table_lost(table: TableId, position: str | None, what: str) -> TableHistoryLostError:
    """The error of a table whose topic lost records to retention before they were read."""
    return TableHistoryLostError(
        f"records were deleted before they were read, which may be changes of this table only: {what}",
        code="RPL-3985",
        table=str(table),
        position=position,
        hint=f"{OWN_PIPELINE}; and raise retention.ms of the topic",
    )


class LostTopics:
    """Which topics are not read any more, because their only table has stopped. Used by one thread.

    Args:
        config: The source's settings.
        definition: The tables that are read; None where that is unknown, so that what is wrong with a topic concerns all.
        context: State; None where nothing is to be stored.

    Attributes:
        topics: All topics that are read, or were until they were lost.
        skipped: Those of them that are lost, and whose table has stopped or is not selected.
    """

    def __init__(
        self, config: KafkaConfig, definition: EventReaderDefinition | None, context: DeltaSourceContext | None
    ) -> None:
        self._config = config
        self._definition = definition
        self._context = context
        stored = None if context is None else context.get_state(_KEY)
        self._kept: dict[str, str] = {} if stored is None else json.loads(stored)
        self.topics: Collection[str] = ()
        self.skipped: frozenset[str] = frozenset()

    def meet(self, lost: Mapping[str, ReplicatorError]) -> None:
        """Raise the first error that concerns a table which is read; skip the topics of the others.

        Args:
            lost: Topic → what is wrong with it, as an error that concerns all tables.

        Raises:
            ReplicatorError: For a table that is read, with `table`; an error of `lost` where the topic's table is not certain,
                or all tables that are read have lost their topics.
        """
        tables = {topic: self._table_of(topic) for topic in lost}
        for topic, error in lost.items():
            if tables[topic] is None and not self._is_left_out(topic):
                raise error
        read = {} if self._definition is None else self._definition.tables
        wanted = [(topic, table) for topic, table in tables.items() if table is not None and table in read]
        if wanted and {table for _, table in wanted} >= read.keys() - {quarantine.TABLE}:
            raise lost[wanted[0][0]]
        self._keep({topic: error.message for topic, error in lost.items() if isinstance(error, HistoryLostError)})
        self.skipped |= lost.keys() - {topic for topic, _ in wanted}
        if not wanted:
            return
        raise of_table(lost[wanted[0][0]], wanted[0][1])

    def of_earlier_runs(self) -> dict[str, ReplicatorError]:
        """Topics that lost records in an earlier run, which the offset has passed since; whose records name their tables."""
        return {
            topic: HistoryLostError(
                f"it is not certain any more which table's records the topic {topic} holds, and some were lost: {message}",
                code="RPL-3988",
                hint="take its tables out of `tables` (by `exclude`) and it out of `topics` or `topicPattern`, and replicate them by a"
                " pipeline of its own, with another `name` and target folder",
            )
            for topic, message in self._kept.items()
        }

    def _keep(self, lost: Mapping[str, str]) -> None:
        """Store what follows from lost records also when the offset has passed them: nothing more is read of the topics."""
        if self._context is None or not self._config.names_tables or lost.keys() <= self._kept.keys():
            return
        self._kept = {**lost, **self._kept}
        failpoint("kafka.lost_topics.found")
        self._context.put_state(_KEY, json.dumps(self._kept).encode())
        failpoint("kafka.lost_topics.kept")

    def have_all(self, topic: str, begins: Mapping[TopicPartition, int]) -> bool:
        """Whether no table needs the records of a topic's partitions before `begins`: it has them, or is not read any more."""
        table = self._table_of(topic)
        if self._definition is None or table is None:
            return False
        if table not in self._definition.tables:
            return not self._config.names_tables  # else a table may follow that is not known yet
        reached = self._definition.reached(table)
        return isinstance(reached, KafkaOffset) and all(reached.next.get(tp, -1) >= at for tp, at in begins.items())

    def _table_of(self, topic: str) -> TableId | None:
        """The topic's only table; None where it is not certain, or not known, so that its first records may be lost."""
        if self._definition is None:
            return None
        known = self._definition.tables.keys() | self._definition.stopped
        table = only_table_of(self._config, topic, known, self.topics)
        return table if table is None or table in known or not self._definition.selects(table) else None

    def _is_left_out(self, topic: str) -> bool:
        """Whether the settings no longer name the topic, and no table that is known is in it."""
        if self._definition is None or self._config.wants(topic) or self._config.routes_records:
            return False
        known = self._definition.tables.keys() | self._definition.stopped
        owners = tables_by_topic(_without_quarantine(known), self.topics)
        return owners is not None and topic not in owners


def _without_quarantine(tables: Collection[TableId]) -> list[TableId]:
    return [table for table in tables if table != quarantine.TABLE]


def of_table(error: ReplicatorError, table: TableId) -> ReplicatorError:
    """The error of one table whose topic has an error that would concern all."""
    if error.code == _DELETED:
        return table_lost(table, error.position, error.message)
    if error.code == MISSED:
        return TableHistoryLostError(
            f"its topic may have lost removals of rows before they were read: {error.message}",
            code="RPL-3990",
            table=str(table),
            position=error.position,
            hint=REFILL_TABLE,
        )
    if isinstance(error, HistoryLostError):
        return TableHistoryLostError(
            f"its topic no longer has all of its changes ({error.code}): {error.message}",
            code="RPL-3986",
            table=str(table),
            position=error.position,
            hint=OWN_PIPELINE,
        )
    error.table = str(table)
    return error
