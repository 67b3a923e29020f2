"""The event reader: from the binlog to the emitter."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.errors import HistoryLostError, ReplicatorError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.source import EventEmitter, EventReader, EventReaderDefinition
from replicator_source_mysql.assessment.assessor import check_server, check_tables
from replicator_source_mysql.binlog.dump.binlog_stream import BinlogStream
from replicator_source_mysql.binlog.dump.log_fingerprint import LogFingerprint, is_same_file, read_fingerprint
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.binlog.log_availability import Origin, check_readable, check_same, origin_of, other_file
from replicator_source_mysql.binlog.tables_ahead import TablesAhead
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.hints import COPY_AGAIN
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.starts.log_walk import LogWalk
from replicator_source_mysql.streaming.captured_tables import CapturedTables
from replicator_source_mysql.streaming.event_dispatcher import EventDispatcher
from replicator_source_mysql.streaming.log_position import BinlogPosition
from replicator_source_mysql.streaming.schema_tracker import SchemaTracker
from replicator_source_mysql.streaming.usual_session import usual_session
from replicator_source_mysql.types.mapping import table_schema

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
        self._structure = SchemaTracker(context)
        self._place: BinlogPosition
        self._dispatcher: EventDispatcher

    # ------------------------------------------------------------ before the run

    def initialize(self, offset: Offset | None) -> Offset:
        """Check the server and the offset; see `EventReader.initialize`."""
        with self._session("preparing to read the log") as connection:
            check_server(connection)
            origin = origin_of(connection)
            if offset is None:
                start = self._structure.begin(connection, origin, self._definition.tables)
                place = FilePosition(start.file, start.position)
                proof = read_fingerprint(self._endpoint, origin.server, place, 0, server_id=self._server_id)
                start = replace(start, proof=str(proof))
            else:
                assert isinstance(offset, MySqlOffset)
                start = offset
                check_readable(connection, origin, start)
                self._check_file(origin, start)
                TablesAhead(connection, self._endpoint, origin, server_id=self._server_id).check(
                    start, self._definition
                )
                if start.resume and start.server != origin.identity:
                    raise _prepared_elsewhere(start)
                self._structure.resume(start.reading_from)
            usual = usual_session(connection, is_mariadb=origin.server.is_mariadb)
        self._place = BinlogPosition(origin, start, self._emitter)
        captured = CapturedTables(
            self._definition,
            self._endpoint.config,
            self._structure,
            logs_generated=not origin.server.is_mariadb,
        )
        self._dispatcher = EventDispatcher(self._place, self._structure, captured, usual, self._context)
        return start

    def begin_at(self, offset: Offset, tables: Sequence[TableSchema]) -> Mapping[TableId, TableSchema]:
        """Begin the schema history at `offset`, with what the tables were there; see `EventReader.begin_at`."""
        assert isinstance(offset, MySqlOffset)
        narrowed, config = self._definition.narrowed, self._endpoint.config
        selected = {s.table: frozenset(s.names) if s.table in narrowed else None for s in tables}
        with self._session("preparing to read the log") as connection:
            check_server(connection)
            origin = origin_of(connection)
            check_readable(connection, origin, offset)
            self._check_file(origin, offset)
            usual = usual_session(connection, is_mariadb=origin.server.is_mariadb)
            walk = LogWalk(self._endpoint, origin, usual, self._server_id)
            found = self._structure.begin_at(connection, walk, offset, selected)
        self._place = BinlogPosition(origin, offset, self._emitter)
        zeros = config.zero_dates
        return {
            table: table_schema(definition, zero_dates=zeros, names=selected[table])
            for table, definition in found.items()
        }

    def _check_file(self, origin: Origin, start: MySqlOffset) -> None:
        if start.server != origin.identity:
            return  # the place is found by GTIDs
        place, proof = FilePosition(start.file, start.position), LogFingerprint.parse(start.proof)
        if not is_same_file(self._endpoint, origin.server, place, proof, server_id=self._server_id):
            raise other_file(start)

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Check that the log will have the tables' changes whole, and learn what they look like now."""
        with self._session("capturing tables") as connection:
            check_same(connection, self._place.origin)
            names = [schema.table for schema in tables]
            catalogue = Catalogue(connection)
            definitions = [found for name in names if (found := catalogue.find(name)) is not None]
            check_tables(connection, names, self._endpoint.config, definitions)
            self._structure.capture(connection, self._place.origin, names)

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
            err.position = err.position or str(self._place.offset)
            raise
        finally:
            self._release()

    def _read(self) -> None:
        stream = self._open_stream()
        if stream is None:
            return
        self._context.set_ok()
        since = 0.0
        while not self._closed.is_set():
            came = stream.receive(_QUIET_SECONDS)
            events = stream.take(_WINDOW_EVENTS) if came else None
            if events is not None and len(events):
                self._dispatcher.deliver(events)
                since = time.monotonic()
            elif time.monotonic() - since > _WINDOW_SECONDS:
                self._dispatcher.beat(stream.heard)

    def _open_stream(self) -> BinlogStream | None:
        """Start reading at the current position, by file and position on its own server, else by GTIDs."""
        origin, offset = self._place.origin, self._place.here
        is_own = offset.server == origin.identity
        stream = BinlogStream.open(
            self._endpoint,
            origin.server,
            FilePosition(offset.file, offset.position) if is_own else str(offset.gtids),
            server_id=self._server_id,
            heartbeat_seconds=self._endpoint.config.heartbeat_interval_seconds,
            check=lambda connection: check_same(connection, origin),
        )
        self._stream = stream
        if self._closed.is_set():
            stream.close()
            return None
        return stream

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Make `run` return within a fraction of a second."""
        self._closed.set()
        self._release()

    def _release(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _prepared_elsewhere(offset: MySqlOffset) -> HistoryLostError:
    return HistoryLostError(
        "this is another server than the one the offset comes from, and distributed transactions were prepared there whose"
        " rows cannot be found in this one's log",
        code="RPL-3797",
        position=str(offset),
        hint=f"point the pipeline back at its server until they are committed or rolled back, or {COPY_AGAIN}",
    )
