"""The event reader: from the binlog to the emitter."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import structlog

from replicator_sdk.batch import Commits, single_commit
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError, NeedsUserError, ReplicatorError
from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableSchema
from replicator_sdk.source import EventEmitter, EventReader, EventReaderDefinition
from replicator_source_mysql.assessment import check_server, check_tables
from replicator_source_mysql.binlog.decoder import Decoder
from replicator_source_mysql.binlog.event import Events, FilePosition
from replicator_source_mysql.binlog.stream import BinlogStream
from replicator_source_mysql.captured import CapturedTables
from replicator_source_mysql.catalogue import Catalogue
from replicator_source_mysql.connection import Endpoint, variables
from replicator_source_mysql.diagnosis import diagnosed
from replicator_source_mysql.gtid import GtidProgress, GtidTrail, parse_gtids
from replicator_source_mysql.history.session import Session
from replicator_source_mysql.log_end import check_readable, origin_of
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.prepared import HeldRows, PreparedTransactions
from replicator_source_mysql.structure import StructureLog
from replicator_source_mysql.transactions import Mark, MarkKind, TransactionScanner

if TYPE_CHECKING:
    import pymysql

log = structlog.get_logger(__name__)

_WINDOW_EVENTS = 32_768
_WINDOW_SECONDS = 0.1
_QUIET_SECONDS = 0.05


class MySqlEventReader(EventReader):
    """Reads a server's binlog as a replica; see `EventReader` for the promises.

    Args:
        endpoint: Where to connect.
        server_id: Our id among the server's replicas.
        definition: Tables and policy.
        context: State, committed offset, metrics.
        emitter: Where events go.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        server_id: int,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,
        emitter: EventEmitter,
    ) -> None:
        self._endpoint = endpoint
        self._server_id = server_id
        self._definition = definition
        self._context = context
        self._emitter = emitter
        self._closed = threading.Event()
        self._stream: BinlogStream | None = None
        self._structure = StructureLog(context)
        self._captured = CapturedTables(definition, endpoint.config, self._structure)
        self._decoder = Decoder(self._captured.plan)
        self._offset = MySqlOffset("", 0)
        self._progress: GtidProgress = parse_gtids("")
        self._ordinal = 0
        self._prepared = PreparedTransactions()
        self._known_until: MySqlOffset | None = None

    # ------------------------------------------------------------ before the run

    def initialize(self, offset: Offset | None) -> Offset:
        """Check the server and the place; see `EventReader.initialize`."""
        with self._session("preparing to read the log") as connection:
            check_server(connection)
            origin = origin_of(connection)
            if offset is None:
                self._offset = self._structure.begin(connection, origin, self._definition.tables)
            else:
                assert isinstance(offset, MySqlOffset)
                check_readable(connection, origin, offset)
                if offset.resume and offset.server != origin.identity:
                    raise _prepared_elsewhere(offset)
                self._structure.resume(offset.reading_from)
                self._offset = offset
        return self._offset

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Check that the log will have the tables' changes whole, and learn what they look like now."""
        with self._session("capturing tables") as connection:
            names = [schema.table for schema in tables]
            catalogue = Catalogue(connection)
            definitions = [found for name in names if (found := catalogue.find(name)) is not None]
            check_tables(connection, names, self._endpoint.config, definitions)
            self._structure.capture(connection, origin_of(connection), names)

    @contextlib.contextmanager
    def _session(self, doing: str) -> Any:
        with self._endpoint.session() as connection, diagnosed(doing):
            yield connection

    # ------------------------------------------------------------ the run

    def run(self) -> None:
        """Read until `close` or an error."""
        try:
            with diagnosed("reading the log"):
                self._read()
        except ReplicatorError as err:
            if self._closed.is_set():
                return
            err.position = err.position or str(self._offset)
            raise
        finally:
            self._release()

    def _read(self) -> None:
        with self._session("preparing to read the log") as connection:
            self._origin = origin_of(connection)
            usual = _usual_session(connection, is_mariadb=self._origin.server.is_mariadb)
        self._progress = self._origin.gtids(self._offset.gtid)
        self._scanner = TransactionScanner(usual)
        stream = self._open_stream()
        self._here = self._offset.reading_from
        if stream is None:
            return
        self._context.set_ok()
        since = 0.0
        while not self._closed.is_set():
            came = stream.receive(_QUIET_SECONDS)
            events = stream.take(_WINDOW_EVENTS) if came else None
            if events is not None and len(events):
                self._deliver(events)
                since = time.monotonic()
            elif time.monotonic() - since > _WINDOW_SECONDS:
                self._beat(stream.heard)

    def _open_stream(self) -> BinlogStream | None:
        """Start reading at the offset, by file and position on its own server, else by GTIDs."""
        self._known_until = self._offset if self._offset.resume else None
        offset = self._offset.reading_from
        same_server = offset.server == self._origin.identity
        start: FilePosition | str = FilePosition(offset.file, offset.position) if same_server else offset.gtid
        stream = BinlogStream.open(
            self._endpoint,
            self._origin.server,
            start,
            server_id=self._server_id,
            heartbeat_seconds=self._endpoint.config.heartbeat_interval_seconds,
        )
        self._stream = stream
        if self._closed.is_set():
            stream.close()
            return None
        return stream

    def _deliver(self, events: Events) -> None:
        """Decode and emit, in parts between the places where something changes that the log does not show."""
        begin = 0
        for border in self._borders():
            end = _count_until(events, border)
            if end == len(events):
                break
            self._deliver_part(events.part(begin, end))
            begin = end
            self._pass_border(border)
        self._deliver_part(events.part(begin, len(events)))
        self._captured.count_replaced(self._context.metrics)

    def _borders(self) -> list[MySqlOffset]:
        """Places on this server behind which more is known of tables, or behind which nothing has been emitted yet."""
        places = self._structure.due_places() + ([self._known_until] if self._known_until else [])
        return sorted(place for place in places if place.server == self._origin.identity)

    def _pass_border(self, border: MySqlOffset) -> None:
        if self._known_until is not None and not border < self._known_until:
            self._known_until = None
        if self._structure.learn_due(border):
            self._decoder.forget()

    def _deliver_part(self, events: Events) -> None:
        """Decode and emit: whole windows between changes of structure, commits in them together."""
        begin = 0
        commits: list[Mark] = []
        for mark in self._scanner.scan(events):
            if mark.kind is MarkKind.COMMIT and self._prepared.current is None:
                commits.append(mark)
                if self._structure.awaits_other_server(self._origin.identity):
                    self._emit_window(events, begin, mark.index + 1, commits)
                    begin, commits = mark.index + 1, []
                    self._pass_border(self._here)
                continue
            self._emit_window(events, begin, mark.index, commits)
            begin, commits = mark.index, []
            self._interrupt(mark)
        self._emit_window(events, begin, len(events), commits)

    def _emit_window(self, events: Events, begin: int, end: int, commits: Sequence[Mark]) -> None:
        """Emit the row changes of `events[begin:end]`, up to the last commit and behind it."""
        if commits:
            last = commits[-1].index + 1
            ranks = self._emit_rows(events.part(begin, last))
            places = np.array([mark.index - begin + 1 for mark in commits])
            trail = GtidTrail(self._progress.copy(), [mark.gtid for mark in commits])
            resume = self._resume  # offsets are asked for later, when other transactions may be prepared
            self._emit_commits(
                Commits(
                    ranks[places],
                    np.array([mark.timestamp for mark in commits], np.int64),
                    lambda i: self._offset_at(commits[i], trail.after(i), resume),
                )
            )
            begin = last
        if begin < end:
            self._ordinal = int(self._emit_rows(events.part(begin, end))[-1])

    def _emit_rows(self, events: Events) -> Any:
        """Emit the row changes of `events`; returns how many lie before each event, and in the end."""
        if self._prepared.current is not None:
            for batch in self._decoder.decode(events, self._prepared.current.count):
                self._prepared.hold(batch)
            self._prepared.current.count = int(self._decoder.ranks[-1])
        elif self._known_until is None:
            for batch in self._decoder.decode(events, self._ordinal):
                self._emitter.emit_batch(batch)
            return self._decoder.ranks
        return np.full(len(events) + 1, self._ordinal, np.int64)

    def _emit_commits(self, commits: Commits) -> None:
        last = commits.last
        assert isinstance(last, MySqlOffset)
        self._here = last
        if self._known_until is not None:
            return  # read again for the sake of prepared transactions only
        self._emitter.emit_commits(commits)
        self._offset, self._ordinal = last, 0
        self._progress = self._origin.gtids(last.gtid)

    @property
    def _resume(self) -> str:
        """Where reading would have to begin again for the sake of what is prepared now."""
        earliest = self._prepared.earliest
        return str(earliest) if earliest else ""

    def _offset_at(self, mark: Mark, progress: GtidProgress, resume: str) -> MySqlOffset:
        return MySqlOffset(mark.place.file, mark.place.position, str(progress), self._origin.identity, resume)

    # ------------------------------------------------------------ between row changes

    def _interrupt(self, mark: Mark) -> None:
        """What stands at a mark other than a plain commit."""
        if mark.kind is MarkKind.STATEMENT:
            self._statement(mark)
        elif mark.kind is MarkKind.XA_BEGIN:
            self._prepared.begin(self._here)
        elif mark.kind is MarkKind.XA_PREPARED and mark.xid is not None:
            self._prepared.prepare(mark.xid)
        elif mark.kind is MarkKind.XA_ROLLBACK and mark.xid is not None:
            self._prepared.roll_back(mark.xid)
        elif mark.kind is MarkKind.XA_COMMIT and mark.xid is not None:
            self._emit_held(self._prepared.commit(mark.xid, str(mark.place)))
        elif mark.kind is MarkKind.COMMIT:
            self._emit_held(self._prepared.take_current())
        elif self._ordinal:
            raise _rolled_back(mark)
        if mark.ends_group:
            self._emit_commits(single_commit(self._ordinal, self._after(mark), mark.timestamp))

    def _emit_held(self, rows: HeldRows | None) -> None:
        if rows is not None and self._known_until is None:
            for batch in rows.numbered(self._ordinal):
                self._emitter.emit_batch(batch)
            self._ordinal += rows.count

    def _statement(self, mark: Mark) -> None:
        assert mark.query is not None
        after = self._after(mark)
        for change in self._structure.follow(mark.query, after, self._captured):
            if self._known_until is not None:
                continue
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
                    ordinal=self._ordinal,
                    needs_snapshot=change.needs_snapshot,
                )
            )
            self._ordinal += 1
        self._decoder.forget()

    def _after(self, mark: Mark) -> MySqlOffset:
        return self._offset_at(mark, GtidTrail(self._progress, [mark.gtid]).after(0), self._resume)

    def _beat(self, heard: FilePosition | None) -> None:
        """Move the offset of an idle source on."""
        if heard is None or self._scanner.is_open:
            return
        there = MySqlOffset(heard.file, heard.position, str(self._progress), self._origin.identity, self._resume)
        if self._known_until is not None and not there < self._known_until:
            self._known_until = None
        if self._offset < there:
            self._emit_commits(single_commit(self._ordinal, there))

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Make `run` return within a fraction of a second."""
        self._closed.set()
        self._release()

    def _release(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _count_until(events: Events, place: MySqlOffset) -> int:
    """How many of the events end at `place`, which is between two transactions, or before it."""
    numbers = np.array([MySqlOffset(name, 0).file_number for name in events.names], np.int64)[events.file]
    beyond = (numbers > place.file_number) | ((numbers == place.file_number) & (events.position > place.position))
    return int(beyond.argmax()) if beyond.any() else len(events)


def _usual_session(connection: pymysql.Connection[Any], *, is_mariadb: bool) -> Session:
    """What the server's sessions have when a statement's event does not tell."""
    found = variables(connection, "character_set_server", "explicit_defaults_for_timestamp")
    return Session(
        is_mariadb=is_mariadb,
        server_charset=found.get("character_set_server", ""),
        has_explicit_timestamps=found.get("explicit_defaults_for_timestamp", "ON").upper() != "OFF",
    )


def _rolled_back(mark: Mark) -> NeedsUserError:
    return NeedsUserError(
        "a transaction that also changed a table without transactions was rolled back behind row changes in the log",
        code="RPL-3789",
        position=str(mark.place),
        hint="which of them stayed cannot be told: take a new snapshot (a new generation), and change tables with and"
        " without transactions in transactions of their own",
    )


def _prepared_elsewhere(offset: MySqlOffset) -> HistoryLostError:
    return HistoryLostError(
        "this is another server than the one the offset comes from, and distributed transactions were prepared there whose"
        " rows cannot be found in this one's log",
        code="RPL-3797",
        position=str(offset),
        hint="point the pipeline back at its server until they are committed or rolled back, or take a new snapshot (a new"
        " generation)",
    )
