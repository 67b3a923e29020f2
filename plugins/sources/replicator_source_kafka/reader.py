"""The event reader: from the topics to the emitter."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Final

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import BugError, ReplicatorError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableSchema
from replicator_sdk.source import EventEmitter, EventReader, EventReaderDefinition
from replicator_source_kafka import quarantine
from replicator_source_kafka.client import Cluster
from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.delivery import Delivery, valid_through
from replicator_source_kafka.diagnosis import diagnosed, is_about_topics
from replicator_source_kafka.fetch import Piece, read_new, read_ranges
from replicator_source_kafka.formats import make_format
from replicator_source_kafka.group import InformedGroup
from replicator_source_kafka.known_tables import KnownTables
from replicator_source_kafka.offset import KafkaOffset
from replicator_source_kafka.plan import WindowPlan, ranges_between
from replicator_source_kafka.ranges import Place
from replicator_source_kafka.start import Newcomers, check_place, find_topics, resolve_start
from replicator_source_kafka.transactions import Transactions

_START_KEY: Final = "start"


class KafkaEventReader(EventReader):
    """Reads topics window by window; see `EventReader` for the promises.

    Args:
        config: The source's settings.
        definition: Tables and policy.
        context: State, committed offset, metrics.
        emitter: Where events go.
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
        self._plan = WindowPlan(context)
        self._tables = KnownTables(definition, context)
        self._place: KafkaOffset
        self._order: list[Place] = []
        self._looked_at = 0.0
        self._transactions: Transactions | None = None
        self._newcomers: Newcomers | None = None

    # ------------------------------------------------------------ before the run

    def initialize(self, offset: Offset | None) -> Offset:
        """Find the topics and the place in them; see `EventReader.initialize`."""
        quarantine.check_selected(self._config, self._definition.tables)
        with diagnosed("preparing to read the topics"):
            cluster = self._cluster = Cluster(self._config)
            if offset is None:
                offset = self._first_start(cluster)
            if not isinstance(offset, KafkaOffset):
                raise BugError(f"{offset!r} is not an offset of Kafka topics", code="RPL-3958")
            self._place = offset
            check_place(cluster, self._config, self._place)
        cluster.pin(self._place.topics)
        self._plan.resume(self._place)
        self._tables.resume(self._place)
        return self._place

    def _first_start(self, cluster: Cluster) -> KafkaOffset:
        """`startFrom` as offsets, decided once: a run that ended before anything was saved began there, too."""
        stored = self._context.get_state(_START_KEY)
        if stored is not None:
            return KafkaOffset.from_json(json.loads(stored))
        start = resolve_start(cluster, self._config, find_topics(cluster, self._config))
        self._context.put_state(_START_KEY, json.dumps(start.to_json()).encode())
        return start

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Nothing to be done: topics hold what their connectors capture."""
        self._tables.capture(tables)

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Read until `close` or an error."""
        try:
            if self._cluster is not None:
                with diagnosed("reading the topics"):
                    self._read(self._cluster)
        except Exception as error:
            if self._closed.is_set():  # `close` takes the connections away from whatever waits for an answer
                return
            if isinstance(error, ReplicatorError):
                error.position = error.position or str(self._place)
            raise
        finally:
            self._release()

    def _read(self, cluster: Cluster) -> None:
        decoder = make_format(self._config, self._config.out_of_range or self._definition.out_of_range)
        keep = self._config.on_poison == "quarantine"
        delivery = Delivery(decoder, self._tables, self._emitter, self._context, keep_poison=keep)
        group = InformedGroup(self._config.group, self._context) if self._config.group else None
        self._order = sorted(self._place.next)
        if self._config.transaction_topic:
            self._transactions = Transactions(self._config, decoder, self._definition.tables, self._context)
        while not self._closed.is_set():
            try:
                self._read_window(cluster, delivery)
            except Exception as error:
                if is_about_topics(error) and not self._closed.is_set():
                    # Tells more, when topics are no longer what they were.
                    check_place(cluster, self._config, self._place)
                raise
            self._context.set_ok()
            if group is not None:
                group.tell(cluster)

    def _read_window(self, cluster: Cluster, delivery: Delivery) -> None:
        planned = self._plan.next_end(self._place)
        if planned is not None:
            self._read_again(cluster, delivery, planned)
        elif time.monotonic() - self._looked_at >= self._config.metadata_interval_seconds:
            self._look_around(cluster, delivery)
        else:
            self._read_on(cluster, delivery)

    def _read_again(self, cluster: Cluster, delivery: Delivery, end: KafkaOffset) -> None:
        """A window that an earlier run planned."""
        cluster.pin(end.topics)
        pieces = read_ranges(cluster, ranges_between(self._place, end))
        self._deliver(delivery, end, pieces)
        self._order = sorted(end.next)

    def _read_on(self, cluster: Cluster, delivery: Delivery) -> None:
        """A new window: whatever has come."""
        if not self._order:
            self._closed.wait(self._config.own_number("fetch.max.wait.ms") / 1000)
            return
        begin = {place: self._place.next[place] for place in self._order}
        pieces = self._transactions.read(cluster, begin) if self._transactions else read_new(cluster, begin)
        self._order = [*self._order[1:], self._order[0]]
        if not pieces:
            return
        pieces.sort(key=lambda piece: piece.range)
        end = self._place.after(piece.range for piece in pieces)
        self._plan.add(end)
        self._deliver(delivery, end, pieces)
        self._closed.wait(self._plan.seconds_between)

    def _deliver(self, delivery: Delivery, end: KafkaOffset, pieces: Sequence[Piece]) -> None:
        delivery.deliver(self._place, end, pieces)
        aside = self._config.transaction_topic  # its records are of no row
        told = [piece for piece in pieces if piece.range.topic != aside]
        through = valid_through(told) if len(told) == sum(topic != aside for topic, _ in end.next) else None
        if through is not None:
            self._context.metrics.gauge("source.valid_through", through.timestamp())
        self._place = end

    # ------------------------------------------------------------ topics that come and go

    def _look_around(self, cluster: Cluster, delivery: Delivery) -> None:
        """See whether topics are still the same, and let new ones join at their beginning."""
        if self._newcomers is None:
            self._newcomers = Newcomers(cluster, self._config)
        end = self._newcomers.join(self._place)
        self._looked_at = time.monotonic()
        if end == self._place:
            return
        cluster.pin(end.topics)
        self._plan.add(end)
        self._deliver(delivery, end, [])
        self._order = sorted(end.next)

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Make `run` return at once, whatever answer it waits for."""
        self._closed.set()
        self._release()

    def _release(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
