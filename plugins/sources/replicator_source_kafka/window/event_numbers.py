"""Numbers the events of a window by the places of their records in its partitions.

A table's position may be between two events of a window. So an event must have the same number when the window is read again,
although retention or compaction deleted records of it, of this table or of others, in the meantime. Counted events would move.
Kafka's offsets do not, nor do the ranges of a window, whose ends are saved (`WindowLog`).
"""

from __future__ import annotations

from collections.abc import Sequence

from replicator_sdk.batch import Int64s
from replicator_sdk.schema import TableId
from replicator_source_kafka.offset import KafkaOffset, ranges_between
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.records import Records


def width_of(routed: Sequence[TableId]) -> int:
    """How many events one record may be: one of each table that records are routed to, and one of the quarantine."""
    return len(routed) + 1 if routed else 1


class EventNumbers:
    """The ordinals of the window between two offsets; some are not used.

    The first ones are for schema changes, as many as records of the window may be events: each is found in a record, and none in the
    same record as another of its table. Then each partition has as many, partition by partition.

    Args:
        begin: Where the window begins.
        end: Where it ends.
        width: How many events a record may be, as it was when the window was planned.
        routed: The tables that records are routed to now.

    Attributes:
        count: How many ordinals the window has.
        of_schemas: How many of them are for schema changes.
    """

    def __init__(self, begin: KafkaOffset, end: KafkaOffset, width: int = 1, routed: Sequence[TableId] = ()) -> None:
        ranges = ranges_between(begin, end)
        self._width = width
        # Of more tables than when the window was planned the last ones share a number, which only rows may.
        self._ranks = {table: min(place, width - 1) for place, table in enumerate(routed, 1)}
        following = self.of_schemas = width * sum(each.end - each.begin for each in ranges)
        self._shifts: dict[TopicPartition, int] = {}
        for each in ranges:
            self._shifts[each.topic, each.partition] = following - width * each.begin
            following += width * (each.end - each.begin)
        self.count = following

    def of(self, records: Records, table: TableId) -> Int64s:
        """The ordinal of each record of one partition, as an event of a table."""
        return records.offset * self._width + self._shifts[records.topic, records.partition] + self._ranks.get(table, 0)
