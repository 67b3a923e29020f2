"""Concatenates events from several buffers into one."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from replicator_source_mysql.binlog.event import HEADER_BYTES, STATEMENT_LOADS, Events, Kind
from replicator_source_mysql.binlog.event_errors import refused

_HEADER = struct.Struct("<IBIIIH")
_KNOWN = frozenset(Kind) - STATEMENT_LOADS - {Kind.INCIDENT, Kind.TRANSACTION_PAYLOAD}
_Row = tuple[int, int, int, int, int, int, int, int, int]


class EventConcat:
    """Collects events in order; returns them as `Events` with one buffer.

    Args:
        names: The files' names, those of every event added.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._chunks: list[bytes | memoryview] = []
        self._rows: list[_Row] = []
        self._size = 0

    def add(self, events: Events) -> None:
        """Add events as they are."""
        if not len(events):
            return
        first, last = int(events.start[0]), int(events.end[-1])
        shift = self._size - first
        self._rows += zip(
            events.kind.tolist(),
            (events.start + shift).tolist(),
            (events.end + shift).tolist(),
            events.timestamp.tolist(),
            events.server_id.tolist(),
            events.flags.tolist(),
            events.begin.tolist(),
            events.position.tolist(),
            events.file.tolist(),
            strict=True,
        )
        self._append(events.data.data[first:last])

    def add_one(self, kind: int, body: bytes, events: Events, index: int) -> None:
        """Add an event with another kind and body than the one it is made of."""
        self._rows.append(
            (
                kind,
                self._size,
                self._size + len(body),
                int(events.timestamp[index]),
                int(events.server_id[index]),
                int(events.flags[index]),
                int(events.begin[index]),
                int(events.position[index]),
                int(events.file[index]),
            )
        )
        self._append(body)

    def add_inner(self, block: bytes, events: Events, index: int) -> None:
        """Add whole events with headers and without checksums, which replace another event.

        Raises:
            BugError: When one of them is of an unknown type.
        """
        begin, position, file = int(events.begin[index]), int(events.position[index]), int(events.file[index])
        at = 0
        while at < len(block):
            timestamp, kind, server_id, size, _, flags = _HEADER.unpack_from(block, at)
            if kind not in _KNOWN:
                raise refused(kind, str(events.place(index)))
            start = self._size + at + HEADER_BYTES
            self._rows.append((kind, start, self._size + at + size, timestamp, server_id, flags, begin, position, file))
            at += size
        self._append(block)

    def _append(self, chunk: bytes | memoryview) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)

    def full(self, limit: int) -> Iterator[Events]:
        """What was added, when it is more than `limit` bytes; the buffer is then empty."""
        if self._size <= limit and not (limit == 0 and self._rows):
            return
        data = np.frombuffer(b"".join(self._chunks), np.uint8)
        columns = np.array(self._rows, np.int64).T
        kind, start, end, timestamp, server_id, flags, begin, position, file = (
            np.ascontiguousarray(column) for column in columns
        )
        self._chunks, self._rows, self._size = [], [], 0
        kind = kind.astype(np.uint8)
        yield Events(data, kind, start, end, timestamp, server_id, flags, begin, position, file, self._names)
