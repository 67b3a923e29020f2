"""Recognises whether a binlog file is the one that was read before.

A server that is restored in place writes files of the same names, gives its transactions the same numbers, and may end a
transaction at the same position. The time at which a file was created and the first event of the last transaction before an
offset differ, and are read again before reading goes on from the offset. MariaDB's log says seconds only: a restore within the
second of the first start cannot be recognised there.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
import zlib
from dataclasses import dataclass, replace
from typing import Self

from replicator_sdk.errors import BugError, HistoryLostError, RetryableError
from replicator_sdk.offset import Offset
from replicator_source_mysql.binlog.dump.binlog_stream import BinlogStream
from replicator_source_mysql.binlog.event import Events, FilePosition, Kind
from replicator_source_mysql.binlog.event_errors import INCIDENT
from replicator_source_mysql.connect.connection import Endpoint, Server, server_of
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.offset import MySqlOffset

_SECONDS = 30.0
_WRAP = 1 << 32
"""A dump cannot begin at a position beyond it."""
_FIRST = 4
"""Where the first event of every file begins."""


@dataclass(frozen=True, slots=True)
class LogFingerprint:
    """What identifies a file, and the last transaction in it before an offset.

    Attributes:
        created: When the file was created, seconds since 1970 UTC; 0 when that is not known.
        begin: Where the last transaction before the offset begins in the file; 0 when there is none, or when it is not known.
        digest: Checksum of that transaction's first event.
    """

    created: int
    begin: int = 0
    digest: int = 0

    def __str__(self) -> str:
        return f"{self.created}:{self.begin}:{self.digest:08x}" if self.created else ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`; nothing is known from an empty text."""
        if not text:
            return cls(0)
        created, begin, digest = text.split(":")
        return cls(int(created), int(begin), int(digest, 16))


def event_digest(events: Events, index: int) -> int:
    """A checksum of an event's body and of the second in which it was written.

    The first event of a transaction holds its identifier and, from MySQL 8 on, the microsecond of its commit.
    """
    return zlib.crc32(events.body(index), int(events.timestamp[index]))


def read_fingerprint(
    endpoint: Endpoint, server: Server, place: FilePosition, begin: int, *, server_id: int
) -> LogFingerprint:
    """The fingerprint of the file as it is now, with the transaction at `begin`; without one if `begin` is 0.

    Raises:
        HistoryLostError: When the file has no such position.
        ReplicatorError: When the server cannot be reached, or refuses to send its log.
    """
    begin = begin if begin < _WRAP else 0
    start = FilePosition(place.file, begin or (place.position if place.position < _WRAP else _FIRST))
    stream = BinlogStream.open(endpoint, server, start, server_id=server_id, heartbeat_seconds=1.0)
    created, deadline = 0, time.monotonic() + _SECONDS
    with contextlib.closing(stream), diagnosed(f"reading the log at {start}"):
        while time.monotonic() < deadline:
            events = stream.take(1) if stream.receive(0.2) else None
            if events is None or not len(events):
                continue
            if not created and events.kind[0] == Kind.FORMAT_DESCRIPTION:
                created = int(events.timestamp[0])
                if not begin:
                    return LogFingerprint(created)
            elif created and events.begin_place(0) == start and events.position[0] > begin:
                return LogFingerprint(created, begin, event_digest(events, 0))
    raise RetryableError(
        f"the server did not send its binlog file {place.file}",
        code="RPL-3798",
        position=str(place),
        hint="the attempt is repeated; if it happens again, look at the server's load and error log",
    )


def is_same_file(
    endpoint: Endpoint, server: Server, place: FilePosition, proof: LogFingerprint, *, server_id: int
) -> bool:
    """Whether the server's file is the one of the fingerprint; True when the fingerprint is empty."""
    if not proof.created:
        return True
    try:
        found = read_fingerprint(endpoint, server, place, proof.begin, server_id=server_id)
    except HistoryLostError as error:
        return error.code == INCIDENT  # that one follows: reading on says so
    except BugError:
        return False  # no event begins there
    return found.created == proof.created and (not found.begin or found.digest == proof.digest)


class CreationTimes:
    """When the files of a server's log were created, asked once for each file. Safe from any thread.

    The server is asked under an id of its own each time, since it ends one of two dumps with one id.

    Args:
        endpoint: The server.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], int] = {}

    def proven(self, offset: Offset) -> Offset:
        """The offset with the creation time of its file, so that another file of that name is recognised.

        A server that is restored in place goes on in a new file. So nothing else has to be known of a position in the file that was
        written when the position was taken.

        Raises:
            ReplicatorError: When the server cannot be reached, or refuses to send its log.
        """
        if not isinstance(offset, MySqlOffset) or offset.proof:
            return offset
        with self._lock:
            key = (offset.server, offset.file)
            if key not in self._known:
                self._known[key] = self._ask(FilePosition(offset.file, _FIRST))
            return replace(offset, proof=str(LogFingerprint(self._known[key])))

    def _ask(self, place: FilePosition) -> int:
        server_id = secrets.randbelow((1 << 31) - 2) + (1 << 31)
        with self._endpoint.session() as connection:
            server = server_of(connection)
        try:
            return read_fingerprint(self._endpoint, server, place, 0, server_id=server_id).created
        except HistoryLostError:
            return 0  # the server has removed the file meanwhile; so it cannot be read on from there, either
