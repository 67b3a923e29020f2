"""The event reader: reads the topics window by window, and emits the changes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import BugError, ReplicatorError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventEmitter, EventReader, EventReaderDefinition
from replicator_source_kafka.client.cluster import Cluster
from replicator_source_kafka.client.consumer_group import GroupOffsetReporter
from replicator_source_kafka.client.diagnosis import concerns_topics, diagnosed
from replicator_source_kafka.client.fetch import RangeRecords, read_new, read_ranges
from replicator_source_kafka.client.leader_epochs import LeaderEpochs
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.formats.flat.routing import route_tables
from replicator_source_kafka.offset import KafkaOffset, ranges_between
from replicator_source_kafka.partition_range import TopicPartition
from replicator_source_kafka.tables import quarantine
from replicator_source_kafka.tables.known_tables import KnownTables
from replicator_source_kafka.topics.new_partitions import NewPartitions
from replicator_source_kafka.topics.position_check import PositionCheck
from replicator_source_kafka.topics.selection import check_named, find_topics
from replicator_source_kafka.topics.start_position import resolve_start
from replicator_source_kafka.window.event_numbers import width_of
from replicator_source_kafka.window.transactions import Transactions
from replicator_source_kafka.window.window_emitter import WindowEmitter, valid_through
from replicator_source_kafka.window.window_log import WindowLog

_START_KEY: Final = "start"


class KafkaEventReader(EventReader):
    """Reads topics window by window; see `EventReader` for the promises.

    Args:
        config: The source's settings.
        definition: Tables and policy.
        context: State, committed offset, metrics.
        emitter: Receives the events.
    """

    def __init__(
        self,
        config: KafkaConfig,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,
        emitter: EventEmitter,
    ) -> None:
        self._config = config
        self._definition = definition
        self._context = context
        self._emitter = emitter
        self._closed = threading.Event()
        self._cluster: Cluster | None = None
        self._windows = WindowLog(context)
        self._check: PositionCheck
        self._epochs: LeaderEpochs
        self._tables = KnownTables(definition, context)
        self._width = width_of(route_tables(config.routes))
        self._offset: KafkaOffset
        self._readable: KafkaOffset
        """Where reading began, past deleted records that no table needs."""
        self._order: list[TopicPartition] = []
        self._checked_at = 0.0
        self._transactions: Transactions | None = None
        self._new_partitions: NewPartitions | None = None

    @property
    def skipped(self) -> frozenset[str] | None:
        """The topics of which nothing is read, since their only table has stopped; None before they are known. From any thread."""
        check: PositionCheck | None = getattr(self, "_check", None)
        return None if check is None else check.skipped

    @property
    def known(self) -> frozenset[TableId]:
        """All tables that are known at the start and selected; from any thread."""
        return frozenset((*self._definition.tables, *self._definition.stopped))

    # ------------------------------------------------------------ before the run

    def initialize(self, offset: Offset | None) -> Offset:
        """Find the topics and the offset to start from; see `EventReader.initialize`."""
        quarantine.check_selected(self._config, self._definition.tables)
        with diagnosed("preparing to read the topics"), ExitStack() as on_error:
            cluster = self._cluster = on_error.enter_context(Cluster(self._config))
            self._check = PositionCheck(cluster, self._config, self._definition, self._context)
            if offset is None:
                offset = self._first_start(cluster)
                self._check.begin(offset)
            if not isinstance(offset, KafkaOffset):
                raise BugError(f"{offset!r} is not an offset of Kafka topics", code="RPL-3958")
            self._offset = offset
            self._readable = self._check.check(self._offset)
            cluster.pin(self._offset.topics)
            self._windows.resume(self._offset)
            self._epochs = LeaderEpochs(self._check.refuse)
            self._epochs.begin(self._readable)
            self._check_windows()
            self._tables.resume(self._offset)
            on_error.pop_all()
        return self._offset

    def _first_start(self, cluster: Cluster) -> KafkaOffset:
        """`startFrom` as offsets. They are saved, so that a run which ended before its first commit starts there again."""
        stored = self._context.get_state(_START_KEY)
        if stored is not None:
            return KafkaOffset.from_json(json.loads(stored))
        topics = find_topics(cluster, self._config)
        check_named(self._config, topics)
        start = resolve_start(cluster, self._config, topics)
        self._context.put_state(_START_KEY, json.dumps(start.to_json()).encode())
        return start

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Emit nothing of these tables unless they are selected; connectors decide what is captured."""
        self._tables.capture(tables)

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Read until `close` or an error."""
        try:
            if self._cluster is not None:
                with diagnosed("reading the topics"):
                    self._read(self._cluster)
        except Exception as error:
            if self._closed.is_set():  # `close` closes the connections that requests wait for
                return
            if isinstance(error, ReplicatorError):
                error.position = error.position or str(self._offset)
            raise
        finally:
            self._release()

    def _read(self, cluster: Cluster) -> None:
        decoder = make_format(self._config, self._config.out_of_range or self._definition.out_of_range)
        emitter = WindowEmitter(decoder, self._tables, self._emitter, self._context, self._config)
        group = GroupOffsetReporter(self._config.group, self._context) if self._config.group else None
        self._order = sorted(self._check.read(self._offset.next))
        if self._config.transaction_topic:
            self._transactions = Transactions(self._config, decoder, self._definition.tables, self._context)
        while not self._closed.is_set():
            try:
                self._read_window(cluster, emitter)
            except Exception as error:
                if concerns_topics(error) and not self._closed.is_set():
                    # Raises a clearer error if topics were deleted or created again.
                    skipped = self._check.skipped
                    moved = self._check.check(self._offset)
                    # Else the error is not about a new loss.
                    if moved != self._offset.past(self._readable) or self._check.skipped != skipped:
                        self._readable = moved
                        self._order = sorted(self._check.read(self._offset.next))
                        continue
                raise
            self._context.set_ok()
            if group is not None:
                group.report(cluster)

    def _read_window(self, cluster: Cluster, emitter: WindowEmitter) -> None:
        planned = self._windows.next_end(self._offset)
        if planned is not None:
            self._reread_window(cluster, emitter, planned)
        elif (end := self._offset.past(self._readable)) != self._offset:
            self._windows.add(end, self._width)  # the deleted records are passed in a window of their own, without any
            self._deliver(emitter, end, [])
        elif time.monotonic() - self._checked_at >= self._config.metadata_interval_seconds:
            self._check_topics(cluster, emitter)
        else:
            self._read_new_window(cluster, emitter)

    def _reread_window(self, cluster: Cluster, emitter: WindowEmitter, end: KafkaOffset) -> None:
        """Read and emit a window that an earlier run saved."""
        cluster.pin(end.topics)
        before = self._epochs.of(end.next)
        ranges = ranges_between(self._offset.past(self._readable), end)
        read = [piece for piece in ranges if piece.topic not in self._check.skipped]
        pieces = read_ranges(cluster, read, self._epochs)
        if self._epochs.of(end.next) != before:
            self._check_windows()
        self._deliver(emitter, end, pieces)
        self._order = sorted(self._check.read(end.next))

    def _read_new_window(self, cluster: Cluster, emitter: WindowEmitter) -> None:
        """Read and emit a new window of the available records."""
        self._order = self._check.read(self._order)
        if not self._order:
            self._closed.wait(self._config.own_number("fetch.max.wait.ms") / 1000)
            return
        begin = {tp: self._offset.next[tp] for tp in self._order}
        pieces = self._read_records(cluster, begin)
        self._order = [*self._order[1:], self._order[0]]
        if not pieces:
            return
        pieces.sort(key=lambda piece: piece.range)
        end = self._offset.after((piece.range for piece in pieces), self._epochs.of(self._offset.next))
        self._windows.add(end, self._width)
        self._deliver(emitter, end, pieces)
        self._closed.wait(self._windows.seconds_between)

    def _read_records(self, cluster: Cluster, begin: Mapping[TopicPartition, int]) -> list[RangeRecords]:
        if self._transactions is None:
            return read_new(cluster, begin, self._epochs)
        return self._transactions.read(cluster, begin, self._epochs)

    def _check_windows(self) -> None:
        """Check that the saved windows still have the records that they had; tables may hold them already."""
        if self._windows.last is not None:
            self._check.check_records(self._windows.last)

    def _deliver(self, emitter: WindowEmitter, end: KafkaOffset, pieces: Sequence[RangeRecords]) -> None:
        ignored = {self._config.transaction_topic, *self._check.skipped}  # their records contain no rows
        with_rows = [piece for piece in pieces if piece.range.topic not in ignored]
        whole = len(with_rows) == sum(topic not in ignored for topic, _ in end.next)
        through = valid_through(with_rows) if whole else None
        emitter.emit_window(self._offset, end, pieces, through, width=self._windows.width(end))
        if through is not None:
            self._context.metrics.gauge("source.valid_through", through.timestamp())
        self._offset = end

    # ------------------------------------------------------------ new topics and partitions

    def _check_topics(self, cluster: Cluster, emitter: WindowEmitter) -> None:
        """Check that topics are still the same, and add new ones at their beginning."""
        if self._new_partitions is None:
            self._new_partitions = NewPartitions(cluster, self._config, self._check)
        end = self._new_partitions.join(self._offset)
        self._check.remember_ends(self._offset.topics)
        if end.next.keys() == self._offset.next.keys():  # else what was added may belong to a topic that is not read
            self._checked_at = time.monotonic()
        if end == self._offset:
            return
        cluster.pin(end.topics)
        self._windows.add(end, self._width)
        self._deliver(emitter, end, [])
        self._order = sorted(self._check.read(end.next))

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Make `run` return at once, even if it waits for an answer."""
        self._closed.set()
        self._release()

    def _release(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
