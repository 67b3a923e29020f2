"""Asks the brokers how they are, over connections of its own that a run's other requests never wait for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.connection import Patience
from replicator_source_kafka.client.diagnosis import concerns_topics, diagnosed
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.health.growth import Growth
from replicator_source_kafka.health.log_contents import LogContents
from replicator_source_kafka.health.oldest_unread import OldestUnread
from replicator_source_kafka.health.retention import TimeLeft, by_age, by_size
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.slices.table_records import topics_of

_PATIENCE: Final = Patience(retry_seconds=2.0, answer_ms=4000)


class ReadsTopics(Protocol):
    """What is used of the readers of topics here, from any thread."""

    @property
    def skipped(self) -> frozenset[str] | None:
        """The topics of which nothing is read any more; None before they are known."""

    @property
    def known(self) -> frozenset[TableId]:
        """All tables that are known and selected."""


class KafkaHealthProbe(HealthProbe):
    """See `HealthProbe`. An answer needs every broker that leads a partition which is read.

    Args:
        config: The source's settings.
        log: What reads the topics now, where anything does. What it does not know yet is taken from the one before.
    """

    def __init__(self, config: KafkaConfig, log: Callable[[], ReadsTopics | None]) -> None:
        self._config = config
        self._log = log
        self._skipped: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._is_closed = False
        self._cluster: Cluster | None = None
        self._contents: LogContents | None = None
        self._oldest = OldestUnread()
        self._growth = Growth()

    def ask(self, offset: Offset | None, late: Mapping[TableId, Offset] | None = None) -> SourceHealth:
        """Whether the brokers answer, the records after `offset`, and how long retention leaves them, and those of `late` tables, there."""
        assert offset is None or isinstance(offset, KafkaOffset)
        with diagnosed("asking the brokers how they are"), self._dropping_what_fails():
            cluster = self._connected()
            if offset is None:
                cluster.topics([])
                return SourceHealth()
            if self._contents is None:
                self._contents = LogContents(cluster, self._config.metadata_interval_seconds)
            log = self._log()
            if log is not None and (skipped := log.skipped) is not None:
                self._skipped = skipped
            names = [n for n in offset.topics if self._config.wants(n) and n not in self._skipped]
            self._contents.ask(offset, names)
            known = frozenset() if log is None else log.known
            return self._health(cluster, self._contents, offset, self._needed(offset, late or {}, known))

    def _needed(
        self, offset: KafkaOffset, late: Mapping[TableId, Offset], known: frozenset[TableId]
    ) -> dict[TopicPartition, int]:
        """From where on the records of each partition are needed: some tables are before the offset."""
        needed = dict(offset.next)
        for table, there in late.items():
            assert isinstance(there, KafkaOffset)
            own, _ = topics_of(self._config, known | {table}, table, there.topics)
            for tp, at in there.next.items():
                if tp[0] in own and tp in needed:
                    needed[tp] = min(needed[tp], at)
        return needed

    def close(self) -> None:
        """See `HealthProbe.close`."""
        with self._lock:
            self._is_closed = True
            self._drop()

    def _connected(self) -> Cluster:
        if (known := self._cluster) is not None:
            return known
        cluster = Cluster(self._config, _PATIENCE)
        with self._lock:
            if not self._is_closed:
                self._cluster = cluster
                return cluster
        cluster.close()
        raise ConnectionError("the run has ended")

    @contextlib.contextmanager
    def _dropping_what_fails(self) -> Iterator[None]:
        """Connect again after an error: connections keep errors that do not pass."""
        try:
            yield
        except BaseException:
            with self._lock:
                self._drop()
            raise

    def _drop(self) -> None:
        cluster, self._cluster, self._contents = self._cluster, None, None
        if cluster is not None:
            cluster.close()

    def _health(
        self, cluster: Cluster, contents: LogContents, offset: KafkaOffset, needed: Mapping[TopicPartition, int]
    ) -> SourceHealth:
        counts = _unread(contents, offset.next)
        unread = _unread(contents, needed)
        self._growth.note(contents.ends)
        deleted = {tp for tp in unread if contents.begins.get(tp, needed[tp]) > needed[tp]}
        self._look(cluster, contents, {tp: needed[tp] for tp in unread if tp not in deleted})
        left = [
            *(TimeLeft(0.0, f"the topic {name} is not there any more") for name in contents.gone(offset)),
            *(TimeLeft(0.0, f"records of {topic}-{part} were deleted unread") for topic, part in sorted(deleted)),
            *(one for tp, count in unread.items() if tp not in deleted for one in self._left(contents, tp, count)),
        ]
        first = min(left, default=None)
        shortest = min((r.shortest for r in contents.retention.values() if r.shortest is not None), default=None)
        return SourceHealth(
            waiting_bytes=_bytes(contents, counts),
            waiting_changes=sum(counts.values()),
            retention_seconds=shortest if first is None else first.of,
            seconds_left=None if first is None else first.seconds,
            limited_by="" if first is None else first.limited_by,
        )

    def _look(self, cluster: Cluster, contents: LogContents, unread: dict[TopicPartition, int]) -> None:
        limited = {name for name, retention in contents.retention.items() if retention.shortest is not None}
        try:
            self._oldest.look(cluster, {tp: there for tp, there in unread.items() if tp[0] in limited})
        except Exception as error:
            if not concerns_topics(error):
                raise
            contents.forget_begins()  # retention has deleted records since

    def _left(self, contents: LogContents, tp: TopicPartition, count: int) -> Iterator[TimeLeft]:
        if (retention := contents.retention.get(tp[0])) is None:
            return
        age, least = self._oldest.age(tp), self._oldest.least_age(tp)
        if age is not None and least is not None:
            yield from by_age(tp[0], retention, age, least)
        if retention.nbytes is not None and (size := contents.record_bytes(tp)) is not None:
            growth = self._growth.records_per_second(tp, contents.ends[tp]) * size
            yield from by_size(tp[0], retention.nbytes, count * size, growth)


def _unread(contents: LogContents, begin: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """How many records of each partition are there from an offset on, of those that have any."""
    ends = {tp: end for tp, end in contents.ends.items() if end > begin.get(tp, end)}
    return {tp: end - max(begin[tp], contents.begins.get(tp, 0)) for tp, end in ends.items()}


def _bytes(contents: LogContents, counts: dict[TopicPartition, int]) -> int | None:
    """Bytes of so many records of each partition, by the mean of its log; None when the size of one is not known."""
    sizes = {tp: contents.record_bytes(tp) for tp, count in counts.items() if count}
    if any(size is None for size in sizes.values()):
        return None
    return round(sum(counts[tp] * size for tp, size in sizes.items() if size is not None))
