"""The replication connection: receives messages and reports status.

Two threads share it: the reader's thread receives, another one reports status, so that the server does not end the session
of a reader that waits for a slow target (`wal_sender_timeout`). libpq allows one thread at a time, hence the lock; no thread
holds it while it waits.
"""

from __future__ import annotations

import contextlib
import select
import struct
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from replicator_sdk.errors import RetryableError
from replicator_source_postgres.connection import Endpoint, quote_identifier, replication_command
from replicator_source_postgres.diagnosis import diagnose, diagnosed
from replicator_source_postgres.offset import PostgresOffset, lsn_text
from replicator_source_postgres.pgoutput.window import PG_EPOCH_MICROSECONDS
from replicator_source_postgres.replication.timelines import Timelines

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

_KEEPALIVE_BYTES = 18
_SLICE = 4096
_SKIPS_EMPTY = 150000
_CLOSE_SECONDS = 2.0
_SILENCE_SECONDS = 120.0
"""A live server answers every status report that asks for it."""


class ReplicationStream:
    """An open `START_REPLICATION`; created by `open`, closed by its owner.

    Attributes:
        wal_end: The furthest log position that the server has reported.
        timelines: The server's timelines when the stream began.
    """

    def __init__(self, connection: PGconn, start: PostgresOffset, timelines: Timelines) -> None:
        self._connection = connection
        self.timelines = timelines
        self._lock = threading.Lock()
        self.wal_end = start.lsn
        self.wants_reply = threading.Event()
        self._last_received = time.monotonic()

    @classmethod
    def open(cls, endpoint: Endpoint, slot: str, publication: str, start: PostgresOffset) -> ReplicationStream:
        """Start streaming after `start`.

        Raises:
            ReplicatorError: When the server refuses.
        """
        connection = endpoint.replication()
        try:
            timelines = Timelines.read(connection)
            # The replication grammar knows doubled quotes, and no backslashes.
            names = quote_identifier(publication).replace("'", "''")
            # Older servers send every transaction; newer ones only those with something in them that was asked for, and
            # our own messages have to count as such (`log_continuity`).
            more = ", messages 'true'" if connection.server_version >= _SKIPS_EMPTY else ""
            replication_command(
                connection,
                f"START_REPLICATION SLOT {quote_identifier(slot)} LOGICAL {lsn_text(start.lsn)}"
                f" (proto_version '1', publication_names '{names}'{more})",
            )
        except BaseException:
            connection.finish()
            raise
        connection.nonblocking = 1
        return cls(connection, start, timelines)

    def receive(self, into: list[memoryview | bytes], limit_messages: int, limit_bytes: int, wait: float) -> int:
        """Append the row messages that have arrived to `into`, about up to the limits; returns their bytes.

        Waits up to `wait` seconds when there are none.

        Raises:
            RetryableError: When the connection is lost or ended by the server.
        """
        size = self._take(into, limit_messages, limit_bytes)
        if size == 0:
            ready, _, _ = select.select([self._connection.socket], [], [], wait)
            if ready:
                with self._lock, diagnosed("reading the log"):
                    self._connection.consume_input()
                size = self._take(into, limit_messages, limit_bytes)
        if size:
            self._last_received = time.monotonic()
        elif time.monotonic() - self._last_received > _SILENCE_SECONDS:
            raise RetryableError(
                f"the server has not answered for {_SILENCE_SECONDS:.0f} seconds",
                code="RPL-3210",
                hint="nothing to do: the replicator connects again; if it repeats, check the network and the server's load",
            )
        return size

    def _take(self, into: list[memoryview | bytes], limit_messages: int, limit_bytes: int) -> int:
        size = 0
        while len(into) < limit_messages and size < limit_bytes:
            with self._lock, diagnosed("reading the log"):
                taken, is_dry = self._take_slice(into)
            size += taken
            if is_dry:
                with self._lock, diagnosed("reading the log"):
                    self._connection.consume_input()
                    taken, is_dry = self._take_slice(into)
                size += taken
                if is_dry:
                    break
        return size

    def _take_slice(self, into: list[memoryview | bytes]) -> tuple[int, bool]:
        """Take what libpq already has, some thousand messages at most; the only code that runs once per change."""
        get, append, size = self._connection.get_copy_data, into.append, 0
        for _ in range(_SLICE):
            length, message = get(1)
            if length > _KEEPALIVE_BYTES:
                append(message)
                size += length
            elif length == _KEEPALIVE_BYTES:
                self._note_keepalive(bytes(message))
            elif length == 0:
                return size, True
            else:
                raise self._ended()
        return size, False

    def _note_keepalive(self, message: bytes) -> None:
        self._last_received = time.monotonic()
        self.wal_end = max(self.wal_end, int.from_bytes(message[1:9], "big"))
        if message[17]:
            self.wants_reply.set()

    def _ended(self) -> Exception:
        """The server ended the stream: with an error, or in an orderly shutdown."""
        from psycopg import errors, pq

        result = self._connection.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return diagnose(errors.error_from_result(result), "reading the log")
        return RetryableError(
            "the server ended the stream",
            code="RPL-3207",
            hint="it is shutting down; reading continues when it is back",
        )

    def send_status(self, flushed: PostgresOffset, *, ask_reply: bool) -> None:
        """Report to the server what is durable (it may remove the log before it), and that this session is alive.

        Raises:
            RetryableError: When the connection is lost.
        """
        written = max(self.wal_end, flushed.lsn)
        now = time.time_ns() // 1000 - PG_EPOCH_MICROSECONDS
        status = struct.pack(">cQQQqB", b"r", written, flushed.lsn, flushed.lsn, now, ask_reply)
        with self._lock, diagnosed("reporting to the server"):
            self._connection.put_copy_data(status)
            self._connection.flush()

    def close(self) -> None:
        """End the session; the server frees the slot before this returns, unless it takes too long to answer."""
        from psycopg import Error

        with self._lock:
            with contextlib.suppress(Error, OSError):
                self._end_copy(time.monotonic() + _CLOSE_SECONDS)
            self._connection.finish()

    def _end_copy(self, deadline: float) -> None:
        """End the copy, and discard what still arrives, until the server ends it, too."""
        self._connection.put_copy_end()
        self._connection.flush()
        while time.monotonic() < deadline:
            length, _ = self._connection.get_copy_data(1)
            if length < 0:
                return
            if length == 0:
                select.select([self._connection.socket], [], [], 0.1)
                self._connection.consume_input()


class StatusThread:
    """Reports status at a fixed interval, whatever the reader waits for.

    Args:
        stream: The connection.
        durable: The offset to report; never beyond what is durable at the target, since the server removes its log up to it.
        interval: Seconds between two reports; well below the server's `wal_sender_timeout`.
    """

    def __init__(self, stream: ReplicationStream, durable: Callable[[], PostgresOffset], interval: float) -> None:
        self._stream = stream
        self._durable = durable
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="postgres-status", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._stream.wants_reply.set()
        self._thread.join(5)

    def _run(self) -> None:
        # The reader's thread reports a lost connection, since it reads from it.
        with contextlib.suppress(RetryableError):
            while not self._stop.is_set():
                self._stream.send_status(self._durable(), ask_reply=True)
                if self._stream.wants_reply.wait(self._interval):
                    self._stream.wants_reply.clear()
                    # A server that asks all the time must not be answered in a tight loop.
                    self._stop.wait(0.05)
