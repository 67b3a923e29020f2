"""Events of the binlog: their type codes, what is done with each, and a run of them in one buffer.

Codes: `binlog_event.h` of MySQL (to 9.x) and `log_event.h` of MariaDB (to 11.x).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s

HEADER_BYTES = 19
"""Timestamp (4), type (1), server id (4), size (4), end position (4), flags (2); little-endian."""
CHECKSUM_BYTES = 4

ARTIFICIAL = 0x20
"""Flag of an event the server made for the stream; it is in no file."""
IGNORABLE = 0x80
"""Flag of an event a reader may leave out when it does not know the type."""


class Kind(IntEnum):
    """Type codes of the events this version knows."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    APPEND_BLOCK = 9
    DELETE_FILE = 11
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_1 = 23
    UPDATE_ROWS_1 = 24
    DELETE_ROWS_1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171


HARMLESS = frozenset(
    {
        Kind.STOP,  # the server was shut down
        Kind.INTVAR,  # what a statement's LAST_INSERT_ID() was; rows carry their values
        Kind.RAND,  # the seed of a statement's RAND()
        Kind.USER_VAR,  # a user variable of a statement
        Kind.IGNORABLE,  # a placeholder
        Kind.ROWS_QUERY,  # the statement that made the rows, for people
        Kind.PREVIOUS_GTIDS,  # the GTIDs of earlier files
        Kind.TRANSACTION_CONTEXT,  # group replication's certification
        Kind.VIEW_CHANGE,  # group replication's membership
        Kind.MARIADB_ANNOTATE_ROWS,  # the statement that made the rows, for people
        Kind.MARIADB_BINLOG_CHECKPOINT,  # from which file crash recovery starts
        Kind.MARIADB_GTID_LIST,  # the GTIDs of earlier files
        Kind.MARIADB_START_ENCRYPTION,  # the file is encrypted; the stream is not
    }
)
"""Known, and carrying no change: skipped by name."""

STATEMENT_LOADS = frozenset({Kind.APPEND_BLOCK, Kind.DELETE_FILE, Kind.BEGIN_LOAD_QUERY, Kind.EXECUTE_LOAD_QUERY})
"""LOAD DATA in statement format: the rows are in a file the log only describes."""

WRITES = frozenset({Kind.WRITE_ROWS_1, Kind.WRITE_ROWS})
UPDATES = frozenset({Kind.UPDATE_ROWS_1, Kind.UPDATE_ROWS, Kind.PARTIAL_UPDATE_ROWS})
DELETES = frozenset({Kind.DELETE_ROWS_1, Kind.DELETE_ROWS})
ROWS = WRITES | UPDATES | DELETES
SECOND_VERSION = frozenset({Kind.WRITE_ROWS, Kind.UPDATE_ROWS, Kind.DELETE_ROWS, Kind.PARTIAL_UPDATE_ROWS})
"""Row events whose header has a length of extra data."""
HEARTBEATS = frozenset({Kind.HEARTBEAT, Kind.HEARTBEAT_2})
LAST_KNOWN = max(Kind)


def lookup(kinds: Iterable[int]) -> Bools:
    """A table of 256 booleans: whether a type code is among `kinds`."""
    table = np.zeros(256, np.bool_)
    table[[int(kind) for kind in kinds]] = True
    return table


def words_at(data: Bytes, at: Int64s, size: int) -> Int64s:
    """Little-endian unsigned numbers of 1 to 7 bytes at the given indexes; indexes past the end read as its last bytes."""
    value = data.take(at, mode="clip").astype(np.int64)
    for byte in range(1, size):
        value |= data.take(at + byte, mode="clip").astype(np.int64) << (8 * byte)
    return value


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position in the binlog: where the next event begins.

    Attributes:
        file: The file's name.
        position: Bytes from its beginning; right also beyond 4 GiB.
    """

    file: str
    position: int

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


@dataclass(frozen=True, slots=True)
class Events:
    """Events in log order. Immutable; all arrays have one length.

    Compressed events are plain here: the content of a compressed transaction replaces it, with the position of
    the transaction's own event.

    Attributes:
        data: The buffer that holds the events; never written to again.
        kind: Type code of each (see `Kind`).
        start: Where its body begins in `data`, after the header (the header itself may be missing in `data`).
        end: Where its body ends, before a checksum.
        timestamp: Seconds since 1970 UTC, from the header.
        server_id: Of the server that wrote it first, from the header.
        flags: From the header.
        begin: Where it begins in its file.
        position: Where it ends in its file. An event that is in no file (a ROTATE or FORMAT_DESCRIPTION made for the
            stream, a heartbeat) begins and ends at the position of the one before it.
        file: Which of `names` its file is.
        names: Files, in log order.
    """

    data: Bytes
    kind: Bytes
    start: Int64s
    end: Int64s
    timestamp: Int64s
    server_id: Int64s
    flags: Int64s
    begin: Int64s
    position: Int64s
    file: Int64s
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.kind)

    def body(self, index: int) -> bytes:
        """The body of one event, without header and checksum."""
        return self.data[self.start[index] : self.end[index]].tobytes()

    def place(self, index: int) -> FilePosition:
        """Where one event ends; where reading goes on after it."""
        return FilePosition(self.names[int(self.file[index])], int(self.position[index]))

    def begin_place(self, index: int) -> FilePosition:
        """Where one event begins."""
        return FilePosition(self.names[int(self.file[index])], int(self.begin[index]))

    def where(self, kinds: Iterable[int]) -> Int64s:
        """Ranks of the events of these kinds, ascending."""
        return np.flatnonzero(lookup(kinds)[self.kind])

    def part(self, begin: int, end: int) -> Events:
        """The events from rank `begin` up to `end`, sharing the buffer."""
        return self.pick(slice(begin, end))

    def without_rows(self, which: slice | Bools) -> Events:
        """The same events, where rows of some of them are no rows any more; ranks stay."""
        kind = self.kind.copy()
        chosen = np.zeros(len(kind), np.bool_)
        chosen[which] = True
        kind[chosen & lookup(ROWS)[kind]] = Kind.IGNORABLE
        return replace(self, kind=kind)

    def pick(self, which: slice | Int64s | Bools) -> Events:
        """Some of the events, sharing the buffer."""
        return Events(
            self.data,
            self.kind[which],
            self.start[which],
            self.end[which],
            self.timestamp[which],
            self.server_id[which],
            self.flags[which],
            self.begin[which],
            self.position[which],
            self.file[which],
            self.names,
        )
