"""The topics as slices: the driver plans ranges, executors read them (`DistributedLog`)."""

from __future__ import annotations

import math
import time
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.distributed_log import DistributedLog, LogPartition, LogSlice, SchemaStep
from replicator_sdk.errors import BugError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableSchema
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka import quarantine
from replicator_source_kafka.client import EARLIEST, LATEST, Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.diagnosis import diagnosed
from replicator_source_kafka.fetch import bytes_a_record
from replicator_source_kafka.group import InformedGroup
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.plan import ranges_between
from replicator_source_kafka.range_reader import KafkaRangeReader, narrow_to
from replicator_source_kafka.ranges import Place
from replicator_source_kafka.shape import reconcile
from replicator_source_kafka.start import Newcomers, check_place, check_reach, find_topics, grown_topics, resolve_start

_SAMPLE_BYTES: Final = 1 << 20
_SAMPLE_SECONDS: Final = 60.0
_UNKNOWN_BYTES: Final = 1000.0


class KafkaLog(DistributedLog):
    """Slices of the topics. One connection, for planning; no record's value passes it but a sample's.

    Args:
        config: The source's settings.
        definition: Tables and policy.
        context: State, `set_ok`, the durable offset.
    """

    def __init__(self, config: KafkaConfig, definition: EventReaderDefinition, context: DeltaSourceContext) -> None:
        self._config = config
        self._definition = definition
        self._context = context
        self._cluster: Cluster | None = None
        self._group = InformedGroup(config.group, context) if config.group else None
        self._sizes: dict[str, tuple[float, float]] = {}
        self._looked_at = -math.inf

    # ------------------------------------------------------------ before the first slice

    def initialize(self, offset: Offset | None) -> Offset:
        """Find the topics and the place in them; see `DistributedLog.initialize`."""
        quarantine.check_selected(self._config, self._definition.tables)
        with diagnosed("preparing to read the topics"):
            cluster = self._cluster = Cluster(self._config)
            if offset is None:
                place = resolve_start(cluster, self._config, find_topics(cluster, self._config))
            elif isinstance(offset, KafkaOffset):
                place = offset
                check_place(cluster, self._config, place)
            else:
                raise BugError(f"{offset!r} is not an offset of Kafka topics", code="RPL-3958")
        self._newcomers = Newcomers(cluster, self._config)
        self._pin(place)
        return place

    def _pin(self, place: KafkaOffset) -> None:
        """From now on only records of these very topics are read."""
        self._open.pin(place.topics)
        out_of_range = self._config.out_of_range or self._definition.out_of_range
        self.read = KafkaRangeReader(self._config, dict(place.topics), out_of_range, self._definition.narrowed)

    @property
    def _open(self) -> Cluster:
        assert self._cluster is not None, "initialize comes first"
        return self._cluster

    # ------------------------------------------------------------ planning

    def plan(self, start: Offset, limit_bytes: int, end: Offset | None = None) -> LogSlice | None:
        """The next slice: of every partition the same share of what there is."""
        assert isinstance(start, KafkaOffset)
        with diagnosed("planning what to read next"):
            there = self._fence(start, end) if isinstance(end, KafkaOffset) else self._end(start)
            self._context.set_ok()
            if self._group is not None:
                self._group.tell(self._open)
            if there == start:
                return None
            self._pin(there)
            begin = self._begun(start, there)
            upto = self._share(begin, there, limit_bytes)
        return self._slice(start, begin, upto)

    def _end(self, start: KafkaOffset) -> KafkaOffset:
        """As far as everything is decided now; topics and partitions that are new join first, in a slice of their own."""
        if time.monotonic() - self._looked_at >= self._config.metadata_interval_seconds:
            self._looked_at = time.monotonic()
            joined = self._newcomers.join(start)
            if joined != start:
                return joined
        ends = self._open.offsets(dict.fromkeys(start.next, LATEST))
        if any(ends[place] < there for place, there in start.next.items()):
            check_reach(self._open, start)
        return KafkaOffset(start.topics, ends)

    def _fence(self, start: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
        """`end`, as far as it is stable by now, which it was when it was planned."""
        stable = self._open.offsets(dict.fromkeys(end.next, LATEST))
        upto = {place: max(start.next.get(place, 0), min(there, stable[place])) for place, there in end.next.items()}
        if grown_topics(start, end):  # older partitions first, as `Newcomers` has it
            older = KafkaOffset(start.topics, {place: upto.get(place, there) for place, there in start.next.items()})
            if older != start:
                return older
        return KafkaOffset(end.topics, upto)

    def _begun(self, start: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
        """`start`, and the partitions that joined between the two offsets, at their beginning."""
        new = [place for place in end.next if place not in start.next]
        if not new:
            return start
        earliest = self._open.offsets(dict.fromkeys(new, EARLIEST))
        return start.joined(end.topics, {place: min(at, end.next[place]) for place, at in earliest.items()})

    def _share(self, begin: KafkaOffset, end: KafkaOffset, limit_bytes: int) -> KafkaOffset:
        """Of each partition as large a share of what is left as all together may have."""
        left = {place: there - begin.next[place] for place, there in end.next.items()}
        total = sum(count * self._record_bytes(place, begin) for place, count in left.items() if count)
        if total <= limit_bytes:
            return end
        part = limit_bytes / total
        return KafkaOffset(
            end.topics, {place: begin.next[place] + math.ceil(count * part) for place, count in left.items()}
        )

    def _record_bytes(self, place: Place, begin: KafkaOffset) -> float:
        """About how large a topic's records are at the broker, by a sample now and then."""
        size, sampled_at = self._sizes.get(place[0], (0.0, -math.inf))
        if time.monotonic() - sampled_at > _SAMPLE_SECONDS:
            found = bytes_a_record(self._open, place, begin.next[place], sample_bytes=_SAMPLE_BYTES)
            size = found or size
            self._sizes[place[0]] = (size, time.monotonic())
        return size or _UNKNOWN_BYTES

    def _slice(self, start: KafkaOffset, begin: KafkaOffset, end: KafkaOffset) -> LogSlice:
        ranges = ranges_between(begin, end)
        partitions = tuple(
            LogPartition(index, str(r), r, r.end - r.begin, int((r.end - r.begin) * self._sizes_of(r.topic)))
            for index, r in enumerate(ranges)
        )
        first, last = sum(start.next.values()) + 1, sum(end.next.values())
        return LogSlice(start, end, partitions, first, max(first, last), len(ranges) == len(end.next))

    def _sizes_of(self, topic: str) -> float:
        return self._sizes.get(topic, (0.0, 0.0))[0] or _UNKNOWN_BYTES

    # ------------------------------------------------------------ schemas

    def reconcile(self, known: TableSchema | None, seen: TableSchema) -> SchemaStep | None:
        """The union of both; see `shape.reconcile`."""
        if known is None:
            return SchemaStep(seen)
        fit = reconcile(known, narrow_to(known, seen) if seen.table in self._definition.narrowed else seen)
        return None if fit.schema == known else SchemaStep(fit.schema, tuple(fit.alters))

    def close(self) -> None:
        """Drop the connection."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
