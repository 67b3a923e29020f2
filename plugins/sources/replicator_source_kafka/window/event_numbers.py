"""Numbers the events of a window by the places of their records in its partitions.

A table's position may be between two events of a window. So an event must have the same number when the window is read again,
although retention or compaction deleted records of it, of this table or of others, in the meantime. Counted events would move.
Kafka's offsets do not, nor do the ranges of a window, whose ends are saved (`WindowLog`).
"""

from __future__ import annotations

from replicator_sdk.batch import Int64s
from replicator_source_kafka.offset import KafkaOffset, ranges_between
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.records import Records


class EventNumbers:
    """The ordinals of the window between two offsets; some are not used.

    The first ones are for schema changes, as many as the window has offsets: each is found in a record, and none in the
    same record as another. Then each partition has as many as it has offsets, partition by partition.

    Attributes:
        count: How many ordinals the window has.
    """

    def __init__(self, begin: KafkaOffset, end: KafkaOffset) -> None:
        ranges = ranges_between(begin, end)
        following = sum(each.end - each.begin for each in ranges)
        self._shifts: dict[TopicPartition, int] = {}
        for each in ranges:
            self._shifts[each.topic, each.partition] = following - each.begin
            following += each.end - each.begin
        self.count = following

    def of(self, records: Records) -> Int64s:
        """The ordinal of each record of one partition."""
        return records.offset + self._shifts[records.topic, records.partition]
