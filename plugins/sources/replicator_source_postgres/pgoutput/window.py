"""Consecutive replication messages in one buffer, with the position and kind of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bytes, Int64s
from replicator_sdk.errors import BugError

HEADER = 25
"""Bytes of an XLogData message before the plugin's own: 'w', start, end, send time."""
_PADDING = b"\0" * 16
PG_EPOCH_MICROSECONDS = 946_684_800_000_000
_KNOWN = frozenset(b"BCIUDRTYOM")


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The commits of a window.

    Attributes:
        index: Rank of each Commit message in the window.
        lsn: Where each commit record starts in the log; ascending.
        end_lsn: Where the log continues after each transaction; ascending, each before the next `lsn` or at it.
        timestamp: Microseconds since 1970 UTC.
    """

    index: Int64s
    lsn: Int64s
    end_lsn: Int64s
    timestamp: Int64s


class Window:
    """Messages joined into one buffer; immutable.

    Args:
        messages: XLogData messages (header included) in stream order, as the driver returned them.

    Attributes:
        data: All messages, one after another, and some zero bytes, so that reading ahead stays inside.
        start: Where each message's plugin payload begins in `data`.
        end: Where it ends.
        kind: Its first byte.
    """

    def __init__(self, messages: Sequence[bytes | memoryview]) -> None:
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        self.data: Bytes = np.frombuffer(b"".join([*messages, _PADDING]), np.uint8)
        self.end: Int64s = np.cumsum(lengths)
        self.start: Int64s = self.end - lengths + HEADER
        self.kind: Bytes = self.data.take(self.start)
        if (lengths <= HEADER).any() or not _KNOWN.issuperset(np.unique(self.kind).tolist()):
            self._refuse(lengths)

    def __len__(self) -> int:
        return len(self.kind)

    def part(self, begin: int, end: int) -> Window:
        """The messages from rank `begin` up to `end`, sharing the buffer."""
        part = object.__new__(Window)
        part.data = self.data
        part.start, part.end, part.kind = self.start[begin:end], self.end[begin:end], self.kind[begin:end]
        return part

    def payload(self, index: int) -> bytes:
        """The plugin's bytes of one message."""
        return self.data[self.start[index] : self.end[index]].tobytes()

    def lsn(self, index: int) -> int:
        """The log position the server sent with one message."""
        return int.from_bytes(self.data[self.start[index] - 24 : self.start[index] - 16].tobytes(), "big")

    def where(self, kinds: bytes) -> Int64s:
        """Ranks of the messages of these kinds, ascending."""
        mask = np.zeros(256, np.bool_)
        mask[list(kinds)] = True
        return np.flatnonzero(mask[self.kind])

    def commits(self) -> CommitRun:
        """Its Commit messages (`C`: flags, commit LSN, end LSN, time)."""
        index = self.where(b"C")
        at = self.start[index]
        if (self.end[index] - at != 26).any() or self.data[at + 1].any():
            raise _unknown("C", int(index[0]), "its length or flags are not those of protocol version 1")
        lsn, end_lsn, timestamp = (int64_at(self.data, at + field) for field in (2, 10, 18))
        return CommitRun(index, lsn, end_lsn, timestamp + PG_EPOCH_MICROSECONDS)

    def begins(self) -> bool:
        """Whether a transaction begins in it; otherwise it holds logical messages outside transactions, or nothing.

        Only for a window that does not continue an open transaction.
        """
        index = self.where(b"B")
        outside = self.kind[: index[0]] if len(index) else self.kind
        if (outside != ord("M")).any():
            raise _unknown(chr(int(outside[0])), 0, "a transaction was expected to begin")
        return len(index) > 0

    def begin_records(self) -> list[tuple[int, int]]:
        """For each transaction that begins here, where its commit record starts and its time as in `CommitRun`.

        The server sends a transaction after it has read its commit, so both are known at its Begin message (`B`: commit LSN,
        time, transaction number).
        """
        index = self.where(b"B")
        at = self.start[index]
        if (self.end[index] - at != 21).any():
            raise _unknown("B", int(index[0]), "its length is not that of protocol version 1")
        lsn, timestamp = int64_at(self.data, at + 1), int64_at(self.data, at + 9) + PG_EPOCH_MICROSECONDS
        return list(zip(lsn.tolist(), timestamp.tolist(), strict=True))

    def _refuse(self, lengths: Int64s) -> None:
        for index in range(len(self)):
            if lengths[index] <= HEADER or int(self.kind[index]) not in _KNOWN:
                raise _unknown(chr(int(self.kind[index])), index, "protocol version 1 has no such message")


def _unknown(kind: str, index: int, why: str) -> BugError:
    return BugError(
        f"the log holds a message of kind {kind!r} that cannot be read ({why}; message {index} of its window)",
        code="RPL-3001",
        hint="report it with the server's version; the log was not read past this message",
    )


def int32_at(data: Bytes, at: Int64s) -> Int64s:
    """Big-endian 32-bit numbers at the given places (unsigned, widened)."""
    value = data.take(at).astype(np.int64)
    for byte in (1, 2, 3):
        value <<= 8
        value |= data.take(at + byte)
    return value


def int64_at(data: Bytes, at: Int64s) -> Int64s:
    """Big-endian signed 64-bit numbers at the given places."""
    gathered = data[at[:, None] + np.arange(8)]
    return np.ascontiguousarray(gathered).view(">i8").ravel().astype(np.int64)
