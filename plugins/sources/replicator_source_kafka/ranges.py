"""Ranges of records: what is read as one piece, here or on another machine."""

from __future__ import annotations

from dataclasses import dataclass

Place = tuple[str, int]
"""A partition: topic and number."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionRange:
    """Records of one partition from `begin` up to, not including, `end`. Picklable.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        begin: The first Kafka offset; there need be no record with it.
        end: The Kafka offset behind the last one; at most the last stable offset when the range was planned.
    """

    topic: str
    partition: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.begin}:{self.end}]"
