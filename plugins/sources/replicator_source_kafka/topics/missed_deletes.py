"""Finds compacted topics whose removals of rows may be gone before they were read.

The cleaner removes the tombstone of a key `delete.retention.ms` after it has first met it, and with it the only record that says that
the row is gone. A reader must have passed each record within that time (Kafka's documentation, "Log compaction"); who is later
would keep the row for ever. So it is remembered where partitions ended at some times. A position that was not yet
at one of those ends, although that is longer ago, has missed nothing if the records after it have all their offsets.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.diagnosis import REFILL
from replicator_source_kafka.health.retention import SETTINGS, Retention
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.record_batches.decoding import RecordBatch, read_batches, records_of

_log = logging.getLogger(__name__)
MISSED: Final = "RPL-3989"
_KEY: Final = "ends"
_PARTS: Final = 20
_SHORTEST, _LONGEST = 1.0, 600.0
_LOOK_AGAIN_SECONDS: Final = 3600.0
_SETTINGS_SECONDS: Final = 60.0
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Ends:
    """Where partitions ended.

    Attributes:
        at: When, in seconds since 1970: all records of before have lower offsets.
        next: The offset after the last record.
        is_first: Whether nothing was read before these offsets that the target has.
    """

    at: float
    next: Mapping[TopicPartition, int]
    is_first: bool = False


class MissedDeletes:
    """Remembers where compacted topics ended, over runs. Used by one thread.

    Args:
        cluster: The brokers.
        context: State, and the durable offset; None where nothing is remembered, and nothing found.
    """

    def __init__(self, cluster: Cluster, context: DeltaSourceContext | None) -> None:
        self._cluster = cluster
        self._context = context
        stored = None if context is None else context.get_state(_KEY)
        self._ends = [] if stored is None else _from_json(stored)
        self._kept: dict[str, float] = {}
        self._asked_of: set[str] = set()
        self._unseen: set[str] = set()
        self._asked_at = 0.0
        self._due = 0.0
        self._looked: dict[TopicPartition, tuple[float, int]] = {}
        """Until when that all records from an offset on were there is taken for so, and which offset."""

    def begin(self, offset: KafkaOffset) -> None:
        """The target has no rows of before `offset`, so none whose removal may be gone."""
        if self._context is None:
            return
        if first := {tp: offset.next[tp] for tp in self._of_compacted(offset, offset.topics)}:
            self._keep(Ends(time.time(), first, is_first=True))

    def of(self, offset: KafkaOffset, topics: Iterable[str]) -> dict[str, HistoryLostError]:
        """Of some topics those of which a removal after `offset` may be gone. What is not known yet counts as read until now."""
        if self._context is None:
            return {}
        now = time.time()
        partitions = self._of_compacted(offset, topics)
        # Where nothing was read yet, however long ago that was to begin, no row is at the target whose removal may be gone.
        known = {tp for ends in self._ends for tp in ends.next} - self._unread(offset)
        if new := {tp: offset.next[tp] for tp in partitions if tp not in known}:
            self._keep(Ends(now, new))
        return self._missed(offset, [tp for tp in partitions if tp not in new], now)

    def _unread(self, offset: KafkaOffset) -> set[TopicPartition]:
        return {tp for ends in self._ends if ends.is_first for tp, at in ends.next.items() if offset.next.get(tp) == at}

    def remember(self, topics: Iterable[str]) -> dict[str, HistoryLostError]:
        """Remember where the topics end now, if that is due; and look at the durable offset as `of` does."""
        if self._context is None or time.monotonic() < self._due:
            return {}
        offset, now = self._context.committed_offset(), time.time()
        if not isinstance(offset, KafkaOffset):
            return {}
        missed = self.of(offset, topics)
        newest = {tp: ends.at for ends in self._ends for tp in ends.next}
        partitions = self._of_compacted(offset, topics)
        # Each topic at a pace of its own, so that one whose removals go soon does not have those of all others written.
        due = [tp for tp in partitions if now - newest.get(tp, -math.inf) >= self._kept[tp[0]] / _PARTS]
        if due:
            self._keep(Ends(now, {tp: end.offset for tp, end in self._cluster.ends(due).items()}))
        each = min(self._kept.values(), default=math.inf) / _PARTS
        self._due = time.monotonic() + min(_LONGEST, max(_SHORTEST, each))
        return missed

    def _of_compacted(self, offset: KafkaOffset, topics: Iterable[str]) -> list[TopicPartition]:
        """The partitions of an offset that lose their tombstones."""
        names = set(topics) & offset.topics.keys()
        if not names <= self._asked_of or time.monotonic() - self._asked_at > _SETTINGS_SECONDS:
            asked = self._asked_of | names
            self._ask(sorted(asked))
            # Only now, so that a request that failed is repeated at the next look.
            self._asked_of, self._asked_at = asked, time.monotonic()
        return [tp for tp in offset.next if tp[0] in names and tp[0] in self._kept]

    def _ask(self, names: Sequence[str]) -> None:
        """For how long the topics keep tombstones; nothing is known of those whose settings the login may not see."""
        found = self._cluster.topic_settings(names, SETTINGS, skip_refused=True)
        kept = {name: Retention.of(settings).tombstone_seconds for name, settings in found.items()}
        self._kept = {name: seconds for name, seconds in kept.items() if seconds is not None}
        self._say_unseen(set(names) - found.keys())

    def _say_unseen(self, topics: set[str]) -> None:
        """Say once of which topics nothing can be found: the login may not DESCRIBE_CONFIGS them."""
        if new := topics - self._unseen:
            _log.info("whether %d topics are compacted cannot be seen (DescribeConfigs), as %s", len(new), min(new))
            self._unseen |= new

    def _missed(
        self, offset: KafkaOffset, partitions: Iterable[TopicPartition], now: float
    ) -> dict[str, HistoryLostError]:
        late: dict[TopicPartition, float | None] = {}
        for tp in partitions:
            read_at = max(
                (ends.at for ends in self._ends if ends.next.get(tp, offset.next[tp] + 1) <= offset.next[tp]),
                default=None,
            )
            if read_at is None or now - read_at >= self._kept[tp[0]]:
                late[tp] = read_at
        unread = {
            tp: end.offset
            for tp, end in (self._cluster.ends(late) if late else {}).items()
            if end.offset > offset.next[tp]
        }
        found: dict[str, HistoryLostError] = {}
        for tp, end in unread.items():
            if tp[0] in found or self._has_looked(tp, offset.next[tp]):
                continue
            began = time.monotonic()
            if self._has_gap(tp, offset.next[tp], end):
                found[tp[0]] = _error(tp, offset, self._kept[tp[0]], late[tp], now)
            else:
                looked = time.monotonic()
                # Looks at much that is unread take a part of the time only, however soon removals go.
                pause = max(_SHORTEST, self._kept[tp[0]] / _PARTS, _PARTS * (looked - began))
                self._looked[tp] = (looked + min(_LOOK_AGAIN_SECONDS, pause), offset.next[tp])
        return found

    def _has_looked(self, tp: TopicPartition, begin: int) -> bool:
        until, there = self._looked.get(tp, (0.0, begin + 1))
        return there <= begin and time.monotonic() < until

    def _has_gap(self, tp: TopicPartition, begin: int, end: int) -> bool:
        """Whether an offset of a range has no record any more. All of it is fetched: only what is late is looked at."""
        tries = _TRIES
        while begin < end:
            (answer,) = self._cluster.fetch({tp: begin})
            batches = list(read_batches(answer.data))
            if not batches and (tries := tries - 1):
                continue  # what is in remote storage may take longer than an answer waits
            if not batches:
                return True
            tries = _TRIES
            for batch in batches:
                if not _is_whole(batch, tp, begin):
                    return True
                begin = batch.next_offset
        return False

    def _keep(self, ends: Ends) -> None:
        """Store that, and forget what is too long ago to show anything; the newest of each partition stays, as one that is not read now."""
        assert self._context is not None
        kept, later = [ends], set(ends.next)
        for known in reversed(self._ends):
            age = ends.at - known.at
            left = {tp: at for tp, at in known.next.items() if age < self._kept.get(tp[0], 0.0) or tp not in later}
            later |= known.next.keys()
            kept += [Ends(known.at, left, known.is_first)] if left else []
        self._ends = kept[::-1]
        self._context.put_state(_KEY, _to_json(self._ends))


def _is_whole(batch: RecordBatch, tp: TopicPartition, begin: int) -> bool:
    """Whether a batch has a record for each offset from `begin` on."""
    if batch.base_offset > begin:
        return False
    if batch.count == batch.next_offset - batch.base_offset:
        return True
    if batch.base_offset == begin or batch.is_control:
        return False
    offsets = records_of([batch], *tp).offset
    return int((offsets >= begin).sum()) == batch.next_offset - begin


def _error(tp: TopicPartition, offset: KafkaOffset, kept: float, read_at: float | None, now: float) -> HistoryLostError:
    since = "longer ago than is known" if read_at is None else f"{_duration(now - read_at)} ago"
    return HistoryLostError(
        f"{tp[0]}-{tp[1]} is read up to {offset.next[tp]}, where it ended {since}; records after that were compacted away, and the topic keeps"
        f" removals of rows for {_duration(kept)} only (delete.retention.ms): some may be gone that were not read",
        code=MISSED,
        position=str(offset),
        hint=REFILL,
    )


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _to_json(ends: Iterable[Ends]) -> bytes:
    found = []
    for one in ends:
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in one.next.items():
            topics.setdefault(topic, {})[str(partition)] = offset
        found.append({"at": one.at, "topics": topics, **({"first": True} if one.is_first else {})})
    return json.dumps(found).encode()


def _from_json(stored: bytes) -> list[Ends]:
    return [
        Ends(
            float(one["at"]),
            {(topic, int(number)): int(at) for topic, parts in one["topics"].items() for number, at in parts.items()},
            one.get("first", False),
        )
        for one in json.loads(stored)
    ]
