"""The dump of a server's binlog as events.

One thread receives and takes; any other may `close`.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_source_mysql.binlog.dump.compressed_events import expanded
from replicator_source_mysql.binlog.dump.framing import Framer
from replicator_source_mysql.binlog.dump.handshake import Check, begin_dump
from replicator_source_mysql.binlog.event import HEARTBEATS, Events, FilePosition
from replicator_source_mysql.connect.connection import Endpoint, Server
from replicator_source_mysql.connect.diagnosis import diagnose
from replicator_source_mysql.connect.packets import PacketReader, Packets

if TYPE_CHECKING:
    import pymysql

_ERROR = 0xFF
_LIMIT = 1 << 22
_SILENT_SECONDS: Final = 60.0
_SILENT_HEARTBEATS: Final = 5
# A server that looks for its place in old logs sends nothing meanwhile; it does not do so at the end of its log.
_SEARCHING_SECONDS: Final = 600.0


class BinlogStream:
    """An open dump; created by `open`, closed by its owner."""

    def __init__(self, connection: pymysql.Connection[Any], framer: Framer, heartbeat_seconds: float) -> None:
        self._connection = connection
        self._silent_limit = max(_SILENT_SECONDS, _SILENT_HEARTBEATS * heartbeat_seconds)
        self._silent_seconds = 0.0
        self._socket: Any = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001 - PyMySQL has no public name for it
        _probe(self._socket)
        self._packets = PacketReader(connection, 1)
        self._framer = framer
        self._more: Iterator[Events] = iter(())
        self._rest: Events | None = None
        self._failure: ReplicatorError | None = None
        self._is_closed = False
        self._heard: FilePosition | None = None

    @classmethod
    def open(
        cls,
        endpoint: Endpoint,
        server: Server,
        start: FilePosition | str,
        *,
        server_id: int,
        heartbeat_seconds: float,
        check: Check | None = None,
    ) -> Self:
        """Start reading at `start`.

        Args:
            endpoint: The server.
            server: What it is.
            start: A place between two transactions, or the GTIDs executed until there (MySQL's set, MariaDB's list).
            server_id: Our id, unlike that of any other replica of the server.
            heartbeat_seconds: After how long a silence a heartbeat comes.
            check: As for `begin_dump`.

        Raises:
            ReplicatorError: When the server cannot be reached or refuses; a place it no longer has shows at the first
                `receive` or `take`.
        """
        connection, has_checksum = begin_dump(
            endpoint, server, start, server_id=server_id, heartbeat_seconds=heartbeat_seconds, check=check
        )
        at = start if isinstance(start, FilePosition) else None
        return cls(connection, Framer(at, has_checksum=has_checksum), heartbeat_seconds)

    @property
    def heard(self) -> FilePosition | None:
        """How far the log has been read, when the last that came is a heartbeat: the server has nothing else to send.

        None while events are coming or are left to be taken.
        """
        return self._heard if self._rest is None else None

    def receive(self, wait_seconds: float) -> int:
        """Wait up to `wait_seconds` for bytes; returns about how many wait to be taken. Does not wait when `take` has something.

        Raises:
            RetryableError: When the connection is lost, the stream was closed, or the server says nothing for much longer than
                heartbeats need. Only the time spent waiting counts.
        """
        if self._rest is not None or self._failure is not None:
            return 1
        began = time.monotonic()
        try:
            came = self._packets.receive(wait_seconds, _LIMIT)
        except (OSError, ValueError, RetryableError) as err:
            if self._is_closed:
                raise _closed() from None
            if not (self._packets.waiting_bytes and isinstance(err, RetryableError)):
                raise
            self._failure = err  # what came before the end, perhaps the server's reason for it, is taken first
            return 1
        self._silent_seconds = 0.0 if came else self._silent_seconds + time.monotonic() - began
        self._check_silence()
        return came or self._packets.waiting_bytes

    def _check_silence(self) -> None:
        """A connection that was lost without a word, such as by a firewall, looks like a server with nothing to send."""
        limit = self._silent_limit if self._heard is not None else max(self._silent_limit, _SEARCHING_SECONDS)
        if self._silent_seconds > limit:
            raise RetryableError(
                f"the server has sent nothing for {limit:.0f} s, not even a heartbeat",
                code="RPL-3717",
                hint="the connection is opened again; if this comes back, see whether a firewall or proxy between drops"
                " connections, or the server hangs",
            )

    def take(self, limit: int) -> Events:
        """The next events that are here, at most `limit`; none when no event has come as a whole.

        Raises:
            ReplicatorError: What the server said when it ended the stream, after the events before that were taken; or
                what is wrong with an event.
        """
        events = self._rest if self._rest is not None else next(self._more, None)
        if events is None:
            self._read()
            events = next(self._more, None)
        if events is None:
            return _NOTHING
        self._rest = events.part(limit, len(events)) if len(events) > limit else next(self._more, None)
        return events.part(0, limit)

    def _read(self) -> None:
        """Turn what was received into events, compressed ones expanded a few at a time as they are taken."""
        packets = self._packets.take()
        bad = np.flatnonzero(packets.data.take(packets.start))
        if len(bad):
            first = int(bad[0])
            self._failure = self._ended(packets.data[packets.start[first] : packets.end[first]].tobytes())
            packets = Packets(packets.data, packets.start[:first], packets.end[:first])
        if len(packets):
            events = self._framer.frame(packets)
            self._note_heartbeat(events)
            self._more = expanded(events)
        elif self._failure is not None:
            raise self._failure

    def _note_heartbeat(self, events: Events) -> None:
        """Where an idle log ends; a heartbeat among other events says nothing."""
        is_last = len(events) > 0 and int(events.kind[-1]) in HEARTBEATS
        self._heard = self._framer.place if is_last else None

    def _ended(self, payload: bytes) -> ReplicatorError:
        if payload[0] != _ERROR:
            return RetryableError(
                "the server ended the stream",
                code="RPL-3713",
                hint="it is shutting down; reading goes on when it is back",
            )
        words = payload[3:].decode("utf-8", "replace")
        text = words[6:] if words.startswith("#") else words
        number = int.from_bytes(payload[1:3], "little")
        return diagnose(RuntimeError(number, text), f"reading the log at {self._framer.place}")

    def close(self) -> None:
        """End the stream; a `receive` in another thread raises soon. May be called twice."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(Exception):
            self._connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - close() would send a command


def _probe(connected: socket.socket) -> None:
    """Have the kernel ask within a minute whether the other side still lives, also one that searches its log and says nothing."""
    if connected.family in {socket.AF_INET, socket.AF_INET6} and hasattr(socket, "TCP_KEEPIDLE"):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _closed() -> RetryableError:
    return RetryableError("the stream was closed", code="RPL-3713", hint="it is opened again when reading goes on")


def _nothing() -> Events:
    none = np.zeros(0, np.int64)
    empty = np.zeros(0, np.uint8)
    return Events(empty, empty, none, none, none, none, none, none, none, none, ("",))


_NOTHING = _nothing()
