"""The event reader: reads the replication stream and emits its changes."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence

from replicator_sdk.config import OutOfRange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventEmitter, EventReader, EventReaderDefinition
from replicator_source_postgres.catalogue import Catalogue, CatalogueConnection
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.relation_ids import STATE_KEY, RelationIds
from replicator_source_postgres.replication.chosen_start import ChosenStart
from replicator_source_postgres.replication.held_log import HeldLog
from replicator_source_postgres.replication.log_continuity import (
    LogContinuity,
    check_tables_ahead,
    check_timeline,
    confirmable_lsn,
)
from replicator_source_postgres.replication.ownership import DerivedSlot, check_other_slot
from replicator_source_postgres.replication.publication import Publication
from replicator_source_postgres.replication.replication_stream import ReplicationStream, StatusThread
from replicator_source_postgres.replication.slot import Slot, SlotState
from replicator_source_postgres.replication.slot_creation import waiting_for_transactions
from replicator_source_postgres.schema.schema_tracker import SchemaTracker
from replicator_source_postgres.streaming.catalogue_changes import CatalogueChanges
from replicator_source_postgres.streaming.catalogue_poller import CataloguePoller
from replicator_source_postgres.streaming.event_dispatcher import EventDispatcher
from replicator_source_postgres.streaming.heartbeat import Heartbeat
from replicator_source_postgres.streaming.log_position import WalPosition
from replicator_source_postgres.unlogged.unlogged_changes import UnloggedChanges, copy_again

_WINDOW_MESSAGES = 65_536
_WINDOW_BYTES = 16 << 20
_QUIET_SECONDS = 0.02
_WINDOW_SECONDS = 0.1
_SLOT_WAIT_SECONDS = 15.0
_FIRST_INTERVAL_SECONDS = 0.1
"""Between two heartbeats until the catalogue was compared once, which a run that ends at the end of the log waits for."""


class PostgresEventReader(EventReader):
    """Reads one slot; see `EventReader` for the promises.

    Args:
        endpoint: Where to connect.
        slot: The slot's name.
        publication: The publication's name.
        owns_slot: Whether the slot's name was derived from the pipeline's rather than given by the user.
        definition: Tables and policy.
        context: State, committed offset, metrics.
        emitter: Where events go.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        slot: str,
        publication: str,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,
        emitter: EventEmitter,
        *,
        owns_slot: bool,
    ) -> None:
        self._endpoint = endpoint
        self._slot_name = slot
        self._publication_name = publication
        self._owns_slot = owns_slot
        self._definition = definition
        self._context = context
        self._policy: OutOfRange = endpoint.config.out_of_range or definition.out_of_range
        self._closed = threading.Event()
        self._has_run = False
        self._connection = CatalogueConnection(endpoint, statement_timeout_seconds=0)
        self._position = WalPosition(emitter)

    # ------------------------------------------------------------ before the run

    def initialize(self, offset: Offset | None) -> Offset:
        """Create or check publication and slot; see `EventReader.initialize`."""
        catalogue = self._connection.catalogue
        with diagnosed("preparing publication and slot"):
            slot = Slot(catalogue.connection, self._slot_name, self._endpoint.config.database)
            publication = Publication(catalogue, self._publication_name)
            continuity = LogContinuity(
                self._endpoint, self._slot_name, self._publication_name, self._context, self._closed
            )
            if offset is None:
                # The publication first: the server looks it up as of the slot's position.
                publication.ensure(is_first_start=True)
                with waiting_for_transactions(catalogue.connection.pgconn, self._endpoint, self._context):
                    own = DerivedSlot(catalogue.connection, slot, self._context) if self._owns_slot else None
                    self._position.offset = slot.begin_given() if own is None else own.begin()
            else:
                assert isinstance(offset, PostgresOffset)
                if former := continuity.former_slot:
                    before = Slot(catalogue.connection, former, self._endpoint.config.database)
                    check_other_slot(slot, before, offset, self._context, is_derived=self._owns_slot)
                state = self._free_slot(slot, offset)
                publication.ensure(is_first_start=False)
                continuity.check(offset, state.confirmed, publication.identity())
                # The server may take a moment to notice the end of the session that compared the logs.
                self._free_slot(slot, offset)
                if ahead := continuity.ahead(offset, self._definition, publication.identity()):
                    continuity.check_tables(ahead, slot.log_end())
                    self._free_slot(slot, offset)
                self._position.offset = offset
            continuity.save_publication(publication.identity(), self._position.offset)
        return self._position.offset

    def begin_at(self, offset: Offset, tables: Sequence[TableSchema]) -> Mapping[TableId, TableSchema]:
        """Begin in a slot and publication that exist; see `EventReader.begin_at`."""
        assert isinstance(offset, PostgresOffset)
        catalogue = self._connection.catalogue
        with diagnosed("preparing to read the log"):
            slot = Slot(catalogue.connection, self._slot_name, self._endpoint.config.database)
            self._free_slot(slot, offset)
            chosen = ChosenStart(self._endpoint, slot, self._publication_name)
            found = chosen.tables_at(catalogue, offset, tables, self._definition.narrowed)
            self._free_slot(slot, offset)  # the session that has looked into the log has ended
            publication = Publication(catalogue, self._publication_name)
            publication.ensure(is_first_start=False)
            continuity = LogContinuity(
                self._endpoint, self._slot_name, self._publication_name, self._context, self._closed
            )
            continuity.save_publication(publication.identity(), offset)
        self._position.offset = offset
        return found

    def _free_slot(self, slot: Slot, offset: PostgresOffset) -> SlotState:
        """Check the slot; waits for an own session whose end the server has not noticed yet."""
        deadline = time.monotonic() + _SLOT_WAIT_SECONDS
        pause = 0.1
        while True:
            try:
                state = slot.resume(offset)
            except RetryableError:
                if time.monotonic() + pause > deadline or self._closed.wait(pause):
                    raise
                pause = min(2.0, pause * 2)
            else:
                return state

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Add tables to the publication; see `EventReader.capture`."""
        catalogue = self._connection.catalogue
        with diagnosed("adding tables to the publication"):
            known = RelationIds.load(self._context.get_state(STATE_KEY))
            captured = Publication(catalogue, self._publication_name).add(tables, known)
            UnloggedChanges(catalogue, self._publication_name, self._context).record_new(captured)

        def learn(ids: RelationIds) -> None:
            for oid, schema in captured.items():
                ids.captured(oid, schema.table)

        RelationIds.change(self._context, learn)

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Read until `close` or an error."""
        try:
            with diagnosed("reading the log"):
                self._read()
        except ReplicatorError as err:
            err.position = err.position or str(self._position.offset)
            raise
        finally:
            self._connection.close()

    def _read(self) -> None:
        self._has_run = True
        catalogue, definition = self._connection.catalogue, self._definition
        unlogged = UnloggedChanges(catalogue, self._publication_name, self._context)
        tracker = SchemaTracker(
            catalogue,
            unlogged,
            self._endpoint.config.database,
            definition.tables.values(),
            self._policy,
            self._known(catalogue),
            definition.narrowed,
            marks_refused=definition.marks_refused,
        )
        poller = CataloguePoller(catalogue, unlogged, tracker.is_pending)
        unlogged.check(tracker.oids)
        changes = CatalogueChanges(self._position, tracker, poller, self._context)
        dispatcher = EventDispatcher(self._position, tracker, changes, self._context)
        stream = ReplicationStream.open(self._endpoint, self._slot_name, self._publication_name, self._position.offset)
        with contextlib.closing(stream), StatusThread(stream, self._durable, self._status_seconds()):
            check_timeline(stream.timelines, self._position.offset, self._slot_name)
            check_tables_ahead(stream.timelines, self._position.offset, definition)
            self._position.timelines = stream.timelines
            self._context.set_ok()
            slot = Slot(catalogue.connection, self._slot_name, self._endpoint.config.database)
            held = HeldLog(slot, self._context.metrics, self._endpoint.config.max_held_wal_bytes)
            self._receive(stream, dispatcher, Heartbeat(self._position, tracker, poller, changes, held))

    def _known(self, catalogue: Catalogue) -> dict[TableId, int]:
        """The identifiers of the captured tables, by their names at the offset.

        Raises:
            SnapshotNeededError: For a table of which it is not known whether the one that has its name now was copied.
        """
        ids = RelationIds.load(self._context.get_state(STATE_KEY))
        known = ids.identify(self._definition.tables.values(), self._position.offset)
        for table, schema in self._definition.tables.items():
            facts = None if schema.source_id or table in known or table in ids.lost else catalogue.find(table)
            if facts is None:
                continue  # it was dropped, or its copy ends
            if facts.oid in ids or facts.oid in known.values():
                raise copy_again(table, "another captured table took its name")
            known[table] = facts.oid
        return known

    def _durable(self) -> PostgresOffset:
        """What the server may remove from its log; 0/0, which confirms nothing, until an offset is committed.

        Never the offset that reading starts from: a later run may start before it, as long as it is not committed.
        """
        offset = self._context.committed_offset()
        return PostgresOffset(confirmable_lsn(offset) if isinstance(offset, PostgresOffset) else 0)

    def _status_seconds(self) -> float:
        """Seconds between reports: a quarter of `wal_sender_timeout`, and at most the heartbeat interval."""
        query = "SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'"
        row = self._connection.catalogue.connection.execute(query).fetchone()
        timeout = int(row[0]) / 1000 if row else 0.0
        heartbeat = self._endpoint.config.heartbeat_interval_seconds
        return min(10.0, heartbeat, timeout / 4 if timeout > 0 else 10.0)

    def _receive(self, stream: ReplicationStream, dispatcher: EventDispatcher, heartbeat: Heartbeat) -> None:
        messages: list[memoryview | bytes] = []
        size, since, last_beat = 0, 0.0, 0.0
        while not self._closed.is_set():
            was_empty = not messages
            came = stream.receive(messages, _WINDOW_MESSAGES, _WINDOW_BYTES - size, _QUIET_SECONDS)
            size += came
            now = time.monotonic()
            if was_empty:
                since = now
            is_full = len(messages) >= _WINDOW_MESSAGES or size >= _WINDOW_BYTES
            if messages and (is_full or came == 0 or now - since > _WINDOW_SECONDS):
                messages = dispatcher.dispatch(messages, is_full=is_full)
                size, since = sum(map(len, messages)), now
            interval = self._endpoint.config.heartbeat_interval_seconds
            if not self._position.is_settled and came == 0 and not messages:
                interval = min(interval, _FIRST_INTERVAL_SECONDS)
            if now - last_beat >= interval and not dispatcher.is_open:
                heartbeat.beat(None if messages else stream.wal_end, is_idle=came == 0)
                last_beat = now

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Make `run` return within a fraction of a second."""
        self._closed.set()
        if not self._has_run:
            self._connection.close()
