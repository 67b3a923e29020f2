"""The event reader: from the replication stream to the emitter."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence

import structlog

from replicator_sdk.batch import Commits, single_commit
from replicator_sdk.config import OutOfRange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventEmitter, EventReader, EventReaderDefinition
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.diagnosis import diagnosed
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.pgoutput import Decoder, Relation, Truncation, Window
from replicator_source_postgres.pgoutput.images import RelationPlan
from replicator_source_postgres.publication import Publication
from replicator_source_postgres.relations import Relations, StructureChange
from replicator_source_postgres.seen import STATE_KEY, SeenTables
from replicator_source_postgres.slot import Slot
from replicator_source_postgres.stream import ReplicationStream, StatusThread
from replicator_source_postgres.table_watch import TableWatch
from replicator_source_postgres.told import STATE_KEY as TOLD_KEY
from replicator_source_postgres.told import ToldChange, dump_told, load_told

log = structlog.get_logger(__name__)

_WINDOW_MESSAGES = 65_536
_WINDOW_BYTES = 16 << 20
_QUIET_SECONDS = 0.02
_WINDOW_SECONDS = 0.1
_SLOT_PATIENCE_SECONDS = 15.0
_END_OF_LOG = 1 << 64


class PostgresEventReader(EventReader):
    """Reads one slot; see `EventReader` for the promises.

    Args:
        endpoint: Where to connect.
        slot: The slot's name.
        publication: The publication's name.
        owns_slot: Whether the slot's name was derived by us rather than given by the user.
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
        self._emitter = emitter
        self._policy: OutOfRange = endpoint.config.out_of_range or definition.out_of_range
        self._closed = threading.Event()
        self._catalogue: Catalogue | None = None
        self._seen = SeenTables.load(context.get_state(STATE_KEY))
        self._told = load_told(context.get_state(TOLD_KEY))
        self._to_retell: list[ToldChange] = []
        self._offset = PostgresOffset(0)
        self._ordinal = 0
        self._is_open = False
        self._decoder = Decoder(self._plan)
        self._relations: Relations | None = None
        self._watch: TableWatch

    # ------------------------------------------------------------ before the run

    def initialize(self, offset: Offset | None) -> Offset:
        """Make or check publication and slot; see `EventReader.initialize`."""
        catalogue = self._open()
        with diagnosed("preparing publication and slot"):
            slot = Slot(catalogue.connection, self._slot_name, self._endpoint.config.database)
            if offset is None:
                # The publication first: the server looks it up as of the slot's position.
                Publication(catalogue, self._publication_name).ensure(is_first_start=True)
                self._offset = slot.begin(is_ours=self._owns_slot)
            else:
                assert isinstance(offset, PostgresOffset)
                self._resume(slot, offset)
                Publication(catalogue, self._publication_name).ensure(is_first_start=False)
                self._offset = offset
        return self._offset

    def _resume(self, slot: Slot, offset: PostgresOffset) -> None:
        """Check the slot, waiting a while for a session of ours that the server has not yet seen end."""
        deadline = time.monotonic() + _SLOT_PATIENCE_SECONDS
        pause = 0.1
        while True:
            try:
                state = slot.resume(offset)
            except RetryableError:
                if time.monotonic() + pause > deadline or self._closed.wait(pause):
                    raise
                pause = min(2.0, pause * 2)
            else:
                self._watch_held(state.held_bytes)
                return

    def _watch_held(self, held_bytes: int) -> None:
        self._context.metrics.gauge("source.held_wal_bytes", held_bytes)
        limit = self._endpoint.config.max_held_wal_bytes
        if limit is not None and held_bytes > limit:
            log.warning("slot holds much WAL", slot=self._slot_name, held_bytes=held_bytes, limit_bytes=limit)

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Add tables to the publication; see `EventReader.capture`."""
        catalogue = self._open()
        with diagnosed("adding tables to the publication"):
            captured = Publication(catalogue, self._publication_name).add(tables, self._seen)
            for oid, schema in captured.items():
                if self._seen.oid_of(schema.table) is None:
                    self._seen[oid] = schema.table
        self._save_seen()

    def _open(self) -> Catalogue:
        if self._catalogue is None:
            connection = self._endpoint.connect(statement_timeout_seconds=0)
            self._catalogue = Catalogue(connection, self._endpoint.config.database)
        return self._catalogue

    def _save_seen(self) -> None:
        stored = self._seen.dump()
        if stored != self._context.get_state(STATE_KEY):
            self._context.put_state(STATE_KEY, stored)

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Read until `close` or an error."""
        try:
            with diagnosed("reading the log"):
                self._read()
        except ReplicatorError as err:
            err.position = err.position or str(self._offset)
            raise
        finally:
            self._release()

    def _read(self) -> None:
        catalogue = self._open()
        config = self._endpoint.config
        definition = self._definition
        self._relations = Relations(
            catalogue, config.database, definition.tables.values(), self._policy, self._seen, definition.narrowed
        )
        self._watch = TableWatch(catalogue, self._publication_name)
        start = self._offset
        self._to_retell = [told for told in self._told if told.at >= start.lsn]
        stream = ReplicationStream.open(self._endpoint, self._slot_name, self._publication_name, start)
        with contextlib.closing(stream), StatusThread(stream, self._durable, self._status_seconds()):
            self._context.set_ok()
            self._receive(stream)

    def _durable(self) -> PostgresOffset:
        """What the server may forget; nothing (0/0 tells it nothing) until the context says so.

        Not the offset reading starts from: the context may hold that one back, to be able to start before it.
        """
        offset = self._context.committed_offset()
        return offset if isinstance(offset, PostgresOffset) else PostgresOffset(0)

    def _status_seconds(self) -> float:
        """A quarter of what the server tolerates, and often enough that an idle source's offset advances."""
        query = "SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'"
        row = self._open().connection.execute(query).fetchone()
        timeout = int(row[0]) / 1000 if row else 0.0
        heartbeat = self._endpoint.config.heartbeat_interval_seconds
        return min(10.0, heartbeat, timeout / 4 if timeout > 0 else 10.0)

    def _receive(self, stream: ReplicationStream) -> None:
        assert self._relations is not None
        messages: list[memoryview | bytes] = []
        size, since, heartbeat = 0, 0.0, 0.0
        while not self._closed.is_set():
            was_empty = not messages
            came = stream.receive(messages, _WINDOW_MESSAGES, _WINDOW_BYTES - size, _QUIET_SECONDS)
            size += came
            now = time.monotonic()
            if was_empty:
                since = now
            is_full = len(messages) >= _WINDOW_MESSAGES or size >= _WINDOW_BYTES
            if messages and (is_full or came == 0 or now - since > _WINDOW_SECONDS):
                messages = self._deliver(messages, is_full=is_full)
                size, since = sum(map(len, messages)), now
            if now - heartbeat >= self._endpoint.config.heartbeat_interval_seconds and not self._is_open:
                if not messages:
                    self._retell(stream.wal_end + 1)
                self._watch.look(self._relations.captured(), is_idle=came == 0)
                self._settle(stream.wal_end if not messages else self._offset.lsn)
                if not messages:
                    self._beat(stream.wal_end)
                heartbeat = now

    def _beat(self, wal_end: int) -> None:
        """Move the offset of an idle source on: whatever commits later does so behind the position the server told."""
        if self._ordinal and wal_end <= self._offset.lsn:
            # What was told needs a position behind it, which an idle server would not make.
            self._watch.move_on()
        if wal_end > self._offset.lsn and not self._watch.is_waiting:
            self._emit_commits(single_commit(self._ordinal, PostgresOffset(wal_end)))

    def _settle(self, read_up_to: int) -> None:
        """Emit changes of structure that no row has announced, once all that was written before them has been read."""
        assert self._relations is not None

        for oid, table in self._watch.settled(read_up_to):
            if oid in self._watch.dropped:
                log.warning("table dropped at the source", table=str(table))
                self._emitter.emit(DDLEvent(self._offset, DDLOperation.DROP_TABLE, table, ordinal=self._ordinal))
                self._ordinal += 1
                self._relations.forget(table)
            else:
                self._tell(oid, table)
            self._save_seen()

    def _tell(self, oid: int, table: TableId) -> None:
        """Emit what the catalogue shows of a table, kept first so that a replay tells the same at the same place."""
        assert self._relations is not None
        changes: list[StructureChange] = []
        self._relations.settle(oid, changes.append)
        if changes:
            last = changes[-1]
            needs_snapshot = any(change.needs_snapshot for change in changes)
            self._told.append(ToldChange(self._offset.lsn, oid, table, last.schema, needs_snapshot))
            self._context.put_state(TOLD_KEY, dump_told(self._told))
        for change in changes:
            self._report(change)

    def _report(self, change: StructureChange) -> None:
        """Emit a change of structure as the next event."""
        self._emit_structure(change, self._ordinal)
        self._ordinal += 1

    def _retell(self, before: int) -> None:
        """Emit what an earlier run told from the catalogue at positions less than `before`."""
        assert self._relations is not None
        while self._to_retell and self._to_retell[0].at < before:
            told = self._to_retell.pop(0)
            if self._offset.lsn < told.at:
                self._emit_commits(single_commit(self._ordinal, PostgresOffset(told.at)))
            self._relations.retell(told, self._report)

    def _deliver(self, messages: list[memoryview | bytes], *, is_full: bool) -> list[memoryview | bytes]:
        """Decode and emit up to the last commit; returns the messages of the transaction still open.

        A transaction that fills a window by itself is emitted without its commit, ordinals running on.
        """
        window = Window(messages)
        commits = window.commits()
        ends = commits.index + 1
        if not len(ends) and not is_full:
            return messages
        stop = int(ends[-1]) if len(ends) else len(window)
        begin = 0
        for end in self._cuts(window.part(0, stop), ends.tolist(), commits.end_lsn.tolist()):
            part = window.part(begin, end)
            first = part.commits().end_lsn
            self._retell(int(first[0]) if len(first) else _END_OF_LOG)
            self._emit_part(part)
            begin = end
        self._count_replaced()
        return messages[stop:]

    def _cuts(self, window: Window, ends: list[int], positions: list[int]) -> list[int]:
        """Where to end windows: a change of structure stands in the first transaction of its window."""
        cuts = {len(window)}
        for told in self._to_retell:
            cuts.update([end for end, position in zip(ends, positions, strict=True) if position <= told.at][-1:])
        for border in self._decoder.borders(window):
            before = [end for end in ends if end <= border]
            if before:
                cuts.add(before[-1])
        return sorted(cuts)

    def _emit_part(self, part: Window) -> None:
        for item in self._decoder.decode(part, self._ordinal):
            if isinstance(item, Truncation):
                self._emit_truncation(item)
            else:
                self._emitter.emit_batch(item.batch)
        commits = part.commits()
        ranks = self._decoder.ranks
        self._is_open = not len(commits.index)
        if self._is_open:
            self._ordinal = int(ranks[-1])
            return
        ends = commits.end_lsn
        self._emit_commits(Commits(ranks[commits.index], commits.timestamp, lambda i: PostgresOffset(int(ends[i]))))

    def _emit_commits(self, commits: Commits) -> None:
        self._emitter.emit_commits(commits)
        last = commits.last
        assert isinstance(last, PostgresOffset)
        self._offset, self._ordinal = last, 0

    def _plan(self, relation: Relation, ordinal: int, _: int) -> tuple[RelationPlan | None, int]:
        """Called by the decoder for every relation message; emits what changed."""
        assert self._relations is not None
        emitted = 0

        def report(change: StructureChange) -> None:
            nonlocal emitted
            self._emit_structure(change, ordinal + emitted)
            emitted += 1

        plan = self._relations.learn(relation, report)
        if plan is not None:
            self._save_seen()
        return plan, emitted

    def _emit_structure(self, change: StructureChange, ordinal: int) -> None:
        kinds = [alter.kind.value for alter in change.alters]
        log.info("structure changed", table=str(change.table), operation=change.operation.value, steps=kinds)
        self._emitter.emit(
            DDLEvent(
                offset=self._offset,
                operation=change.operation,
                table=change.table,
                schema=change.schema,
                prev_table=change.previous,
                alters=change.alters,
                ordinal=ordinal,
                needs_snapshot=change.needs_snapshot,
            )
        )

    def _emit_truncation(self, truncation: Truncation) -> None:
        assert self._relations is not None
        for rank, relation in enumerate(truncation.relations):
            table = self._relations.of(relation)
            if table is not None:
                schema = self._relations.schemas[table]
                change = StructureChange(DDLOperation.TRUNCATE_TABLE, table, schema)
                self._emit_structure(change, truncation.ordinal + rank)

    def _count_replaced(self) -> None:
        assert self._relations is not None
        for table, counter in self._relations.replaced.items():
            for count in counter.values():
                self._context.metrics.count("source.out_of_range", count, table=table)
            counter.clear()

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Make `run` return within a fraction of a second."""
        self._closed.set()
        if self._relations is None:
            self._release()

    def _release(self) -> None:
        if self._catalogue is not None:
            with contextlib.suppress(Exception):
                self._catalogue.connection.close()
            self._catalogue = None
