"""Which ranges were read together as one window, kept in state before anything of the window is emitted.

Partitions have no common order, so where a window ends depends on what the brokers happened to send. A replay has to end
its windows at the same places all the same: tables remember how far they are by such a place. So the ends of windows are
written down first, and kept as long as a restart may need them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

from replicator_sdk.context import DeltaSourceContext
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.ranges import PartitionRange

_KEY: Final = "window-plan"
_WINDOWS_A_SECOND: Final = 1000


class WindowPlan:
    """The ends of windows after the offset that is durable, in order. Used by the reader's thread.

    A window may be planned that never was emitted; a restart then begins with it.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        self._ends: list[KafkaOffset] = []

    @property
    def seconds_between(self) -> float:
        """How long to wait before the next window: the longer, the more there are that a restart may need (while a table
        stands still, the durable offset does); otherwise nothing.
        """
        return len(self._ends) / _WINDOWS_A_SECOND

    def resume(self, offset: KafkaOffset) -> None:
        """Go back to `offset`: the windows planned behind it come again, those before it are forgotten."""
        stored = self._context.get_state(_KEY)
        self._ends = [end for end in _load(stored) if offset < end] if stored else []

    def next_end(self, offset: KafkaOffset) -> KafkaOffset | None:
        """Where the window planned after `offset` ends; None when that is to be planned."""
        return next((end for end in self._ends if offset < end), None)

    def add(self, end: KafkaOffset) -> None:
        """Plan a window that ends at `end`, behind all others; durable on return."""
        committed = self._context.committed_offset()
        if isinstance(committed, KafkaOffset):
            self._ends = [kept for kept in self._ends if committed < kept]
        self._ends.append(end)
        self._context.put_state(_KEY, _dump(self._ends))


def ranges_between(begin: KafkaOffset, end: KafkaOffset) -> list[PartitionRange]:
    """What lies between two offsets, in the order windows have it: by topic, then partition."""
    return sorted(_ranges(begin, end))


def _ranges(begin: KafkaOffset, end: KafkaOffset) -> Iterable[PartitionRange]:
    for (topic, partition), there in end.next.items():
        here = begin.next.get((topic, partition), there)
        if here < there:
            yield PartitionRange(topic, partition, here, there)


def _dump(ends: list[KafkaOffset]) -> bytes:
    """The first one whole, of each other one what changed."""
    steps = [_step(begin, end).to_json() for begin, end in pairwise(ends)]
    content = json.dumps([ends[0].to_json(), *steps], separators=(",", ":"))
    return zlib.compress(content.encode(), 1)


def _load(stored: bytes) -> Iterator[KafkaOffset]:
    end = KafkaOffset({})
    steps: list[dict[str, Any]] = json.loads(zlib.decompress(stored))
    for value in steps:
        step = KafkaOffset.from_json(value)
        end = end.joined(step.topics, step.next)
        yield end


def _step(begin: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
    changed = {place: there for place, there in end.next.items() if begin.next.get(place) != there}
    names = {topic for topic, _ in changed} | (set(end.topics) - set(begin.topics))
    return KafkaOffset({name: end.topics[name] for name in names}, changed)
