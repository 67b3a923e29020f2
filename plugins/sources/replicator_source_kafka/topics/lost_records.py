"""Decides what follows where retention deleted records of a topic that were not read.

Where the topic gives the table (formats without an envelope, without `tableField`), its loss concerns that table only: the
table stops for good, and reading goes on after the loss once the table is not read any more. Other topics may hold tables that
are not known yet: their loss concerns all tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from replicator_sdk.errors import TableHistoryLostError
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats.flat.table_name import table_of_topic
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.tables import quarantine

_HINT = (
    "let the connector snapshot the table again; take it out of `tables` (by `exclude`) and replicate it by a pipeline of its own, with another"
    " `name` and target folder; and raise retention.ms of the topic"
)


def only_table_of(config: KafkaConfig, topic: str) -> TableId | None:
    """The only table whose records a topic can hold; None where that is not certain."""
    if config.format.startswith("debezium-") or config.table_field:
        return None
    return table_of_topic(topic, config.table_from_topic)


def after_lost_records(
    config: KafkaConfig,
    definition: EventReaderDefinition,
    offset: KafkaOffset,
    begins: Mapping[TopicPartition, int],
) -> KafkaOffset:
    """`offset`, moved past deleted records that no table needs; the same where their loss concerns all tables.

    A table needs them unless it has them already, has stopped, or is not selected. One that has stopped for another cause holds
    the saved offset, so that the loss is found again once it is read.

    Args:
        config: The source's settings.
        definition: The tables that are read.
        offset: Where reading is to go on.
        begins: Where each partition begins now.

    Raises:
        TableHistoryLostError: For a table that needs them, while others do not.
    """
    lost = {tp: begins[tp] for tp, there in offset.next.items() if there < begins[tp]}
    needing: dict[TableId, TopicPartition] = {}
    for tp, begin in lost.items():
        table = only_table_of(config, tp[0])
        if table is None or not _is_known(definition, table):
            return offset
        if table in definition.tables and not _has(definition, table, tp, begin):
            needing.setdefault(table, tp)
    if not needing:
        epochs = {tp: epoch for tp, epoch in offset.epochs.items() if tp not in lost}
        return KafkaOffset(offset.topics, {**offset.next, **lost}, epochs) if lost else offset
    if needing.keys() >= definition.tables.keys() - {quarantine.TABLE}:
        return offset
    table, tp = next(iter(needing.items()))
    raise table_lost(table, tp, f"{lost[tp] - offset.next[tp]} offsets from {offset.next[tp]} on")


def table_lost(table: TableId, tp: TopicPartition, what: str) -> TableHistoryLostError:
    """The error of a table whose topic lost records before they were read."""
    return TableHistoryLostError(
        f"retention deleted {what} that were not read, which may be changes of this table only",
        code="RPL-3985",
        table=str(table),
        position=f"{tp[0]}-{tp[1]}",
        hint=_HINT,
    )


def _is_known(definition: EventReaderDefinition, table: TableId) -> bool:
    """Whether the run knows the table, or does not select it. The first records of one that it does not know may be lost."""
    return table in definition.tables or table in definition.stopped or not definition.selects(table)


def _has(definition: EventReaderDefinition, table: TableId, tp: TopicPartition, begin: int) -> bool:
    """Whether the table has all records of the partition up to `begin`."""
    reached = definition.reached(table)
    return isinstance(reached, KafkaOffset) and reached.next.get(tp, -1) >= begin
