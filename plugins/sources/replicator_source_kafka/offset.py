"""Offsets: how far each partition of each topic has been read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.offset import Offset
from replicator_source_kafka.partition_range import PartitionRange

_FIELD = "topics"
_SHOWN = 4


@dataclass(frozen=True)
class KafkaOffset(Offset):
    """The next record to read, of every partition.

    The offsets of one pipeline form a chain: in every partition, each is equal to the one before it or greater
    (`WindowLog` makes a replay follow the same chain). So an offset is before another if any partition is greater in the
    other one. A partition that an offset does not name has not been read yet.

    Attributes:
        topics: Topic → its id, which changes when the topic is created again; empty if the broker has no ids.
        next: (topic, partition) → the next Kafka offset to read.
        epochs: (topic, partition) → the leader epoch of the record before it, or a later epoch under which that record
            was seen to be in the log. No part of the place: equal offsets may differ in it. Missing where it is unknown,
            as in offsets of earlier versions.
    """

    topics: Mapping[str, str]
    next: Mapping[tuple[str, int], int] = field(default_factory=dict)
    epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        return tuple(sorted(self.topics.items())), tuple(sorted(self.next.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaOffset) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, KafkaOffset):
            return NotImplemented
        return any(self.next.get(tp, -1) < there for tp, there in other.next.items())

    def __le__(self, other: Any) -> bool:
        """Written out, since the one of `total_ordering` would compare twice."""
        return bool(self == other or self < other)

    def __str__(self) -> str:
        shown = [self._show(topic) for topic in sorted(self.topics)[:_SHOWN]]
        more = len(self.topics) - _SHOWN
        return " ".join(shown) + (f" and {more} more topics" if more > 0 else "")

    def _show(self, topic: str) -> str:
        return f"{topic}:" + ",".join(str(there) for _, there in sorted(self.partitions(topic)))

    def partitions(self, topic: str) -> Iterator[tuple[int, int]]:
        """The partitions of one topic and their next offsets."""
        return ((partition, there) for (name, partition), there in self.next.items() if name == topic)

    def after(self, ranges: Iterable[PartitionRange], epochs: Mapping[tuple[str, int], int]) -> KafkaOffset:
        """The offset after `ranges` are read, which had these leader epochs."""
        read = {(piece.topic, piece.partition): piece.end for piece in ranges}
        return KafkaOffset(self.topics, {**self.next, **read}, {**self.epochs, **epochs})

    def joined(self, topics: Mapping[str, str], begin: Mapping[tuple[str, int], int]) -> KafkaOffset:
        """This offset with additional topics or partitions that have not been read yet."""
        return KafkaOffset({**self.topics, **topics}, {**self.next, **begin}, self.epochs)

    def past(self, later: KafkaOffset) -> KafkaOffset:
        """This offset, in no partition before `later`."""
        moved = {tp: there for tp, there in later.next.items() if self.next.get(tp, there) < there}
        epochs = {tp: epoch for tp, epoch in self.epochs.items() if tp not in moved}
        return KafkaOffset(self.topics, {**self.next, **moved}, epochs) if moved else self

    def to_json(self) -> dict[str, Any]:
        """The stored form: topic → id, next offsets and leader epochs by partition. Earlier versions ignore the epochs."""
        stored: dict[str, Any] = {
            topic: {"id": self.topics[topic], "next": {str(p): there for p, there in sorted(self.partitions(topic))}}
            for topic in sorted(self.topics)
        }
        for (topic, partition), epoch in sorted(self.epochs.items()):
            stored[topic].setdefault("epochs", {})[str(partition)] = epoch
        return stored

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        partitions = {(topic, int(p)): int(there) for topic, kept in value.items() for p, there in kept["next"].items()}
        epochs = {(t, int(p)): int(epoch) for t, kept in value.items() for p, epoch in kept.get("epochs", {}).items()}
        return cls({topic: str(kept["id"]) for topic, kept in value.items()}, partitions, epochs)

    def fields(self) -> Mapping[str, bytes]:
        """One field of compact JSON."""
        return {_FIELD: json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False).encode()}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> Self:
        """The inverse of `fields`."""
        try:
            (content,) = (fields[name] for name in fields if name == _FIELD)
            return cls.from_json(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HistoryLostError(
                "the stored offset is not an offset of Kafka topics",
                code="RPL-3950",
                hint="point the pipeline back at the source it was started with",
            ) from error


def ranges_between(begin: KafkaOffset, end: KafkaOffset) -> list[PartitionRange]:
    """The ranges between two offsets, by topic, then partition: the order of events in a window."""
    return sorted(_ranges(begin, end))


def _ranges(begin: KafkaOffset, end: KafkaOffset) -> Iterable[PartitionRange]:
    for (topic, partition), there in end.next.items():
        here = begin.next.get((topic, partition), there)
        if here < there:
            yield PartitionRange(topic, partition, here, there)
