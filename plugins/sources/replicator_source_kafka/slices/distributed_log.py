"""The topics as slices (`DistributedLog`): the driver plans ranges, executors read them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.distributed.partitioned_log import DistributedLog, LogPartition, LogSlice, SchemaStep
from replicator_sdk.errors import BugError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventReaderDefinition
from replicator_source_kafka.client.cluster import EARLIEST, Cluster, EpochAt
from replicator_source_kafka.client.consumer_group import GroupOffsetReporter
from replicator_source_kafka.client.diagnosis import concerns_topics, diagnosed
from replicator_source_kafka.client.fetch import bytes_per_record
from replicator_source_kafka.client.leader_epochs import LeaderEpochs
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.offset import KafkaOffset, ranges_between
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.slices.range_reader import KafkaRangeReader, narrow_to
from replicator_source_kafka.slices.table_records import TableRecords, topics_of
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.tables.schema_evolution import reconcile
from replicator_source_kafka.tables.topic_tables import TopicOrder
from replicator_source_kafka.topics.new_partitions import NewPartitions, grown_topics
from replicator_source_kafka.topics.position_check import PositionCheck
from replicator_source_kafka.topics.selection import check_named, find_topics
from replicator_source_kafka.topics.start_position import resolve_start

_SAMPLE_BYTES: Final = 1 << 20
_SAMPLE_SECONDS: Final = 60.0
_UNKNOWN_BYTES: Final = 1000.0


class KafkaLog(DistributedLog):
    """Plans slices of the topics over one connection, which reads no records except samples.

    Args:
        config: The source's settings.
        definition: Tables and policy.
        context: State, `set_ok`, and the durable offset.
    """

    reads_tables_alone = True

    def __init__(self, config: KafkaConfig, definition: EventReaderDefinition, context: DeltaSourceContext) -> None:
        self._config = config
        self._definition = definition
        self._context = context
        self._cluster: Cluster | None = None
        self._group = GroupOffsetReporter(config.group, context) if config.group else None
        self._sizes: dict[str, tuple[float, float]] = {}
        self._checked_at = -math.inf
        self._check: PositionCheck
        self._epochs: LeaderEpochs
        self._readable = KafkaOffset({})
        """Where reading began, past deleted records that no table needs."""
        self._known = {*definition.tables, *definition.stopped}

    @property
    def skipped(self) -> frozenset[str] | None:
        """The topics of which nothing is read, since their only table has stopped; None before they are known. From any thread."""
        check: PositionCheck | None = getattr(self, "_check", None)
        return None if check is None else check.skipped

    @property
    def known(self) -> frozenset[TableId]:
        """All tables that are known and selected; from any thread."""
        return frozenset(self._known)

    # ------------------------------------------------------------ before the first slice

    def initialize(self, offset: Offset | None) -> Offset:
        """Find the topics and the offset to start from; see `DistributedLog.initialize`."""
        quarantine.check_selected(self._config, self._known)
        with diagnosed("preparing to read the topics"), ExitStack() as on_error:
            cluster = self._cluster = on_error.enter_context(Cluster(self._config))
            self._check = PositionCheck(cluster, self._config, self._definition, self._context)
            if offset is None:
                topics = find_topics(cluster, self._config)
                check_named(self._config, topics)
                position = resolve_start(cluster, self._config, topics)
                self._check.begin(position)
            elif isinstance(offset, KafkaOffset):
                position = offset
                self._readable = self._check.check(position)
            else:
                raise BugError(f"{offset!r} is not an offset of Kafka topics", code="RPL-3958")
            on_error.pop_all()
        self._epochs = LeaderEpochs(self._check.refuse)
        self._epochs.begin(position.past(self._readable))
        self._new_partitions = NewPartitions(cluster, self._config, self._check)
        self._pin(position)
        return position

    def _pin(self, position: KafkaOffset) -> None:
        """Read only from topics with these ids from now on."""
        self._open.pin(position.topics)
        out_of_range = self._config.out_of_range or self._definition.out_of_range
        order = TopicOrder(position)
        self.read = KafkaRangeReader(
            self._config,
            dict(position.topics),
            out_of_range,
            order,
            self._definition.narrowed,
            frozenset(self._known),
            self._definition.selects,
        )

    @property
    def _open(self) -> Cluster:
        assert self._cluster is not None, "initialize comes first"
        return self._cluster

    # ------------------------------------------------------------ planning

    def plan(self, start: Offset, limit_bytes: int, end: Offset | None = None) -> LogSlice | None:
        """The next slice: the same share of every partition's unread records."""
        assert isinstance(start, KafkaOffset)
        with diagnosed("planning what to read next"):
            there = self._fence(start, end) if isinstance(end, KafkaOffset) else self._end(start)
            self._context.set_ok()
            if self._group is not None:
                self._group.report(self._open)
            if there == start:
                return None
            self._pin(there)
            begin = self._begun(start.past(self._readable), there)
            upto = self._share(begin, there, limit_bytes)
        return self._slice(start, begin, upto)

    def plan_table(self, table: TableId, start: Offset, limit_bytes: int, end: Offset) -> LogSlice | None:
        """See `DistributedLog.plan_table`; nothing is read of topics that certainly hold another table."""
        assert isinstance(start, KafkaOffset)
        assert isinstance(end, KafkaOffset)
        with diagnosed(f"planning what to read next of {table}", table=str(table)):
            found = TableRecords(self._open, self._config, self._known).between(table, start, end)
            if found is None:
                return None
            begin, upto = found
            own, _ = topics_of(self._config, self._known, table, start.topics)
            self._check.check_table(table, start, own)
            return self._slice(start, begin, self._share(begin, upto, limit_bytes))

    def _end(self, start: KafkaOffset) -> KafkaOffset:
        """The last stable offsets. New topics and partitions are added first, in a slice without records."""
        if time.monotonic() - self._checked_at >= self._config.metadata_interval_seconds:
            joined = self._new_partitions.join(start)
            self._check.remember_ends(start.topics)
            if joined.next.keys() == start.next.keys():  # else what was added may belong to a topic that is not read
                self._checked_at = time.monotonic()
            if joined != start:
                return joined
        ends = self._open.ends(self._check.read(start.next))
        if any(end.offset < start.next[tp] for tp, end in ends.items()):
            self._readable = self._check.check(start)
            ends = {tp: ends[tp] for tp in self._check.read(ends)}
        epochs = self._epochs_after(start, ends)
        return KafkaOffset(start.topics, {**start.next, **{tp: end.offset for tp, end in ends.items()}}, epochs)

    def _epochs_after(self, start: KafkaOffset, ends: Mapping[TopicPartition, EpochAt]) -> dict[TopicPartition, int]:
        """The leader epochs of an offset after `start`. Where there is a new leader, `start` is checked first."""
        read = {tp: EpochAt(start.next[tp], end.epoch) for tp, end in ends.items() if tp in start.next}
        self._epochs.follow(self._open, read)
        return self._epochs.of(read)

    def _fence(self, start: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
        """`end`, limited to the last stable offsets; it was stable when it was planned.

        A topic that was deleted or created again since `start` stays what it is there: its table may be read again.
        """
        self._check.check_records(end)
        stable = self._open.ends(self._check.read(end.next))
        limits = {tp: min(there, stable[tp].offset) if tp in stable else there for tp, there in end.next.items()}
        upto = {**start.next, **{tp: max(start.next.get(tp, 0), there) for tp, there in limits.items()}}
        topics = {**end.topics, **start.topics}
        epochs = self._epochs_after(start, stable)
        if grown_topics(start, end):  # older partitions first, as in `NewPartitions`
            older = KafkaOffset(start.topics, {tp: upto[tp] for tp in start.next}, epochs)
            if older != start:
                return older
        return KafkaOffset(topics, upto, epochs)

    def _begun(self, start: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
        """`start`, and the beginning of the partitions that were added between the two offsets.

        Topics that are not read begin where the slice ends.
        """
        skipped = {tp: there for tp, there in end.next.items() if tp[0] in self._check.skipped}
        known = {tp: min(at, end.next[tp]) for tp, at in start.next.items()}
        start = KafkaOffset(start.topics, {**known, **skipped}, start.epochs)
        new = [tp for tp in end.next if tp not in start.next]
        if not new and end.topics == start.topics:
            return start
        earliest = self._open.offsets(dict.fromkeys(new, EARLIEST))
        return start.joined(end.topics, {tp: min(at, end.next[tp]) for tp, at in earliest.items()})

    def _share(self, begin: KafkaOffset, end: KafkaOffset, limit_bytes: int) -> KafkaOffset:
        """An end with the same share of every partition, so that all together have about `limit_bytes`."""
        left = {tp: max(0, there - begin.next[tp]) for tp, there in end.next.items()}
        total = sum(count * self._record_bytes(tp, begin) for tp, count in left.items() if count)
        if total <= limit_bytes:
            return end
        part = limit_bytes / total
        upto = {tp: begin.next[tp] + math.ceil(count * part) for tp, count in left.items()}
        return KafkaOffset(end.topics, upto, end.epochs)

    def _record_bytes(self, tp: TopicPartition, begin: KafkaOffset) -> float:
        """The estimated size of a topic's records at the broker, from a sample once a minute."""
        size, sampled_at = self._sizes.get(tp[0], (0.0, -math.inf))
        if time.monotonic() - sampled_at > _SAMPLE_SECONDS:
            try:
                found = bytes_per_record(self._open, tp, begin.next[tp], sample_bytes=_SAMPLE_BYTES)
            except Exception as error:
                if not concerns_topics(error):  # else executors find what is wrong with the topic
                    raise
                found = 0.0
            size = found or size
            self._sizes[tp[0]] = (size, time.monotonic())
        return size or _UNKNOWN_BYTES

    def _slice(self, start: KafkaOffset, begin: KafkaOffset, end: KafkaOffset) -> LogSlice:
        ranges = ranges_between(begin, end)
        partitions = tuple(
            LogPartition(index, str(r), r, r.end - r.begin, int((r.end - r.begin) * self._sizes_of(r.topic)))
            for index, r in enumerate(ranges)
        )
        first, last = sum(start.next.values()) + 1, sum(end.next.values())
        whole = len(ranges) == len(self._check.read(end.next))
        return LogSlice(start, end, partitions, first, max(first, last), whole)

    def _sizes_of(self, topic: str) -> float:
        return self._sizes.get(topic, (0.0, 0.0))[0] or _UNKNOWN_BYTES

    # ------------------------------------------------------------ schemas

    def reconcile(self, known: TableSchema | None, seen: TableSchema) -> SchemaStep | None:
        """The union of both; see `schema_evolution.reconcile`."""
        if known is None:
            self._known.add(seen.table)
            return SchemaStep(seen)
        fit = reconcile(known, narrow_to(known, seen) if seen.table in self._definition.narrowed else seen)
        return None if fit.schema == known else SchemaStep(fit.schema, tuple(fit.alters))

    def close(self) -> None:
        """Close the connection."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()
