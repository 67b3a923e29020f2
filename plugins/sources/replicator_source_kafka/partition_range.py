"""Ranges of a partition's records."""

from __future__ import annotations

from dataclasses import dataclass

TopicPartition = tuple[str, int]
"""A partition: its topic and its number."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionRange:
    """Records of one partition from `begin` up to, not including, `end`. Picklable.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        begin: The first Kafka offset; there may be no record with it.
        end: The Kafka offset after the last one; at most the last stable offset when the range was planned.
    """

    topic: str
    partition: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.begin}:{self.end}]"
