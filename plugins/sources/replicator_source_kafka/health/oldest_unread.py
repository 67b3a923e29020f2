"""How old the first record of each partition is that was not read yet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.record_batches.decoding import read_batches

_AT_ONCE: Final = 64
_ANSWER_BYTES: Final = 1 << 20
_PARTITION_BYTES: Final = 16 << 10
_AGAIN_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found at an offset.

    Attributes:
        offset: Which.
        at: When, on this process's clock.
        written: The time of the batch's newest record, in seconds since 1970; None when the answer had no place for it.
        least_age: How old the partition's first unread record was when it was youngest, of all looks since the partition was read to its end.
    """

    offset: int
    at: float
    written: float | None
    least_age: float | None = None


class OldestUnread:
    """Looks at some partitions each time, so that a request is small, whatever waits. Used by one thread."""

    def __init__(self) -> None:
        self._looks: dict[TopicPartition, _Look] = {}

    def look(self, cluster: Cluster, unread: Mapping[TopicPartition, int]) -> None:
        """Read a batch of some of those partitions whose first unread record is another one than at the last look.

        Args:
            cluster: The brokers.
            unread: The next offset of each partition that has unread records.

        Raises:
            kafka.errors.KafkaError: As the brokers say.
        """
        self._looks = {tp: look for tp, look in self._looks.items() if tp in unread}
        now = time.monotonic()
        wanted = [tp for tp, there in unread.items() if self._is_due(tp, there, now)]
        if not wanted:
            return
        wanted.sort(key=lambda tp: self._looks[tp].at if tp in self._looks else 0.0)
        unseen = next((tp for tp in wanted if tp in self._looks and self._looks[tp].written is None), None)
        some = wanted[:_AT_ONCE] if unseen is None else [unseen, *(tp for tp in wanted[:_AT_ONCE] if tp != unseen)]
        begin = {tp: unread[tp] for tp in some}
        for answer in cluster.fetch(begin, max_bytes=_ANSWER_BYTES, wait_ms=0, partition_bytes=_PARTITION_BYTES):
            batch = next(iter(read_batches(answer.data)), None)
            self._note(answer.tp, answer.begin, now, None if batch is None else _time_of(batch.max_timestamp))

    def _is_due(self, tp: TopicPartition, there: int, now: float) -> bool:
        known = self._looks.get(tp)
        if known is None or known.written is None:
            return True
        return known.offset != there and now - known.at >= _AGAIN_SECONDS

    def _note(self, tp: TopicPartition, offset: int, at: float, written: float | None) -> None:
        before = self._looks.get(tp)
        if written is None:
            known = (None, None) if before is None else (before.written, before.least_age)
            self._looks[tp] = _Look(offset, at, *known)
            return
        age = max(0.0, time.time() - written)
        least = None if before is None else before.least_age
        self._looks[tp] = _Look(offset, at, written, age if least is None else min(age, least))

    def age(self, tp: TopicPartition) -> float | None:
        """The age in seconds of the partition's first unread record, by its timestamp and this host's clock; None when it is not known."""
        look = self._looks.get(tp)
        return None if look is None or look.written is None else max(0.0, time.time() - look.written)

    def least_age(self, tp: TopicPartition) -> float | None:
        """The same when it was youngest, of all looks since the partition was read to its end."""
        look = self._looks.get(tp)
        return None if look is None else look.least_age


def _time_of(timestamp: int) -> float:
    """In seconds since 1970; records without a time count from when they are seen, as brokers take the time of their file."""
    return timestamp / 1000 if timestamp >= 0 else time.time()
