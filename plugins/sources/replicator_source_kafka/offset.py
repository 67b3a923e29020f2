"""Offsets: how far each partition of each topic has been read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from replicator_sdk.errors import HistoryLostError
from replicator_sdk.offset import Offset
from replicator_source_kafka.ranges import PartitionRange

_FIELD = "topics"
_SHOWN = 4


@dataclass(frozen=True)
class KafkaOffset(Offset):
    """The next record to read, of every partition.

    Offsets of one replicator lie on one chain: each is at every partition where the one before it was or further on
    (`WindowPlan` sees to it that a replay walks the same chain). So one offset is before another when any partition is
    further on in the other; a partition that an offset does not name has not been begun.

    Attributes:
        topics: Topic → its id, which a topic created anew does not share; empty where the broker gives none.
        next: (topic, partition) → the next Kafka offset to read.
    """

    topics: Mapping[str, str]
    next: Mapping[tuple[str, int], int] = field(default_factory=dict)

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
        return any(self.next.get(place, -1) < there for place, there in other.next.items())

    def __le__(self, other: Any) -> bool:
        """Spelled out: the one that `total_ordering` makes would compare twice."""
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

    def after(self, ranges: Iterable[PartitionRange]) -> KafkaOffset:
        """Where reading stands once `ranges` are read."""
        read = {(piece.topic, piece.partition): piece.end for piece in ranges}
        return KafkaOffset(self.topics, {**self.next, **read})

    def joined(self, topics: Mapping[str, str], begin: Mapping[tuple[str, int], int]) -> KafkaOffset:
        """With further topics, or partitions, that have not been read yet."""
        return KafkaOffset({**self.topics, **topics}, {**self.next, **begin})

    def to_json(self) -> dict[str, Any]:
        """The form in state: topic → id and next offsets by partition."""
        return {
            topic: {"id": self.topics[topic], "next": {str(p): there for p, there in sorted(self.partitions(topic))}}
            for topic in sorted(self.topics)
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        places = {(topic, int(p)): int(there) for topic, kept in value.items() for p, there in kept["next"].items()}
        return cls({topic: str(kept["id"]) for topic, kept in value.items()}, places)

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
                "the stored offset is not one of Kafka topics",
                code="RPL-3950",
                hint="point the pipeline back at the source it was started with",
            ) from error
