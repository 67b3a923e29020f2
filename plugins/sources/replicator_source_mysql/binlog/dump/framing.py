"""Turns packets of a dump into events: headers, checksums, and positions that count past 4 GiB."""

from __future__ import annotations

import zlib

import numpy as np
import structlog

from replicator_sdk.authoring.arrow_buffers import Bools, Int64s
from replicator_source_mysql.binlog.event import (
    ARTIFICIAL,
    CHECKSUM_BYTES,
    HEADER_BYTES,
    HEARTBEATS,
    IGNORABLE,
    LAST_KNOWN,
    STATEMENT_LOADS,
    Events,
    FilePosition,
    Kind,
    lookup,
    words_at,
)
from replicator_source_mysql.binlog.event_errors import damaged, out_of_place, refused
from replicator_source_mysql.connect.packets import Packets

log = structlog.get_logger(__name__)

_KNOWN = lookup(set(Kind) - STATEMENT_LOADS - {Kind.INCIDENT})
_STILL = lookup(HEARTBEATS)
_WRAP = 1 << 32
_HALF = 1 << 31
_TABLE_MAP_HEADER = 8


class Framer:
    """Keeps file, position and checksum rule of one stream; used by one thread.

    Args:
        start: Where the dump was asked to start; None for a start by GTIDs, where the server says where it begins and
            may jump.
        has_checksum: Whether events carry a checksum before the first FORMAT_DESCRIPTION says so.
    """

    def __init__(self, start: FilePosition | None, *, has_checksum: bool) -> None:
        self._may_jump = start is None
        self._skip = start if start is not None and start.position >= _WRAP else None
        self._file = start.file if start else ""
        self._position = start.position if start and self._skip is None else 4
        self._has_checksum = has_checksum
        self._told: set[int] = set()

    @property
    def place(self) -> FilePosition:
        """Where the next event begins."""
        return FilePosition(self._file, self._position)

    def frame(self, packets: Packets) -> Events:
        """The events in `packets`, each a zero byte and an event; compressed ones as they are.

        Raises:
            BugError: On an unknown event, or one whose size or position does not fit.
            HistoryLostError: On an incident event.
            NeedsUserError: On a wrong checksum, or changes logged as statements.
        """
        header = packets.start + 1
        if (packets.end - header < HEADER_BYTES).any():
            raise out_of_place("an event is shorter than its header", str(self.place))
        data = packets.data
        events = Events(
            data,
            data.take(header + 4),
            header + HEADER_BYTES,
            packets.end.copy(),
            words_at(data, header, 4),
            words_at(data, header + 5, 4),
            words_at(data, header + 17, 2),
            np.zeros(len(header), np.int64),
            np.zeros(len(header), np.int64),
            np.zeros(len(header), np.int64),
            (self._file,),
        )
        size = words_at(data, header + 9, 4)
        if (size != packets.end - header).any():
            raise out_of_place("an event has another size than its packet", str(self.place))
        return self._settle(events, size, words_at(data, header + 13, 4))

    def _settle(self, events: Events, size: Int64s, log_pos: Int64s) -> Events:
        """Fill in positions and files, take checksums off, from one change of file or format to the next."""
        still = ((events.flags & ARTIFICIAL) != 0) | (log_pos == 0) | _STILL[events.kind]
        names = [self._file]
        begin = 0
        for border in [*events.where((Kind.ROTATE, Kind.FORMAT_DESCRIPTION)).tolist(), len(events)]:
            self._advance(events, slice(begin, border), size, log_pos, still)
            events.file[begin : border + 1] = len(names) - 1
            if border < len(events):
                if events.kind[border] == Kind.FORMAT_DESCRIPTION:
                    self._learn_format(events, border)
                self._advance(events, slice(border, border + 1), size, log_pos, still)
                if events.kind[border] == Kind.ROTATE:
                    self._rotate(events.body(border))
                    names.append(self._file)
            begin = border + 1
        settled = Events(
            events.data, events.kind, events.start, events.end, events.timestamp, events.server_id, events.flags,
            events.begin, events.position, events.file, tuple(names),
        )  # fmt: skip
        return self._known(settled)

    def _advance(self, events: Events, which: slice, size: Int64s, log_pos: Int64s, still: Bools) -> None:
        """Positions and checksums of events of one file and one format."""
        moving = ~still[which]
        low = log_pos[which][moving]
        before = np.concatenate([[self._position % _WRAP], low])[:-1]
        step = (low - before) % _WRAP
        gap = step - size[which][moving]
        if (gap < 0).any() or (not self._may_jump and (gap >= _HALF).any()):
            raise out_of_place("an event's end position does not fit the one before it", str(self.place))
        steps = np.zeros(len(moving), np.int64)
        steps[moving] = step
        events.position[which] = self._position + np.cumsum(steps)
        events.begin[which] = events.position[which] - np.where(moving, size[which], 0)
        if self._has_checksum:
            self._verify(events, which)
            events.end[which] -= CHECKSUM_BYTES
        if len(moving):
            self._position = int(events.position[which][-1])

    def _verify(self, events: Events, which: slice) -> None:
        start, end = events.start[which] - HEADER_BYTES, events.end[which] - CHECKSUM_BYTES
        if (end < start + HEADER_BYTES).any():
            raise out_of_place("an event is too short for its checksum", str(self.place))
        stored = words_at(events.data, end, 4)
        raw, crc32 = events.data.data, zlib.crc32
        computed = [crc32(raw[at:to]) for at, to in zip(start.tolist(), end.tolist(), strict=True)]
        wrong = np.flatnonzero(stored != np.array(computed, np.int64))
        if len(wrong):
            raise damaged(str(FilePosition(self._file, int(events.position[which][wrong[0]]))))

    def _learn_format(self, events: Events, index: int) -> None:
        """FORMAT_DESCRIPTION: format (2), server version (50), time (4), header length (1), a length for each type, and
        the checksum's algorithm, then four bytes of checksum, used or not.
        """
        body = events.body(index)
        if len(body) < 57 + Kind.TABLE_MAP + 1 + CHECKSUM_BYTES:
            raise out_of_place("the format description is too short", str(self.place))
        algorithm = body[-CHECKSUM_BYTES - 1]
        if body[:2] != b"\4\0" or body[56] != HEADER_BYTES or body[56 + Kind.TABLE_MAP] != _TABLE_MAP_HEADER:
            raise out_of_place("the format description is not that of version 4", str(self.place))
        if algorithm > 1:
            raise out_of_place(f"checksum algorithm {algorithm} is not known", str(self.place))
        self._has_checksum = algorithm == 1
        if not self._has_checksum:
            events.end[index] -= CHECKSUM_BYTES

    def _rotate(self, body: bytes) -> None:
        self._file = body[8:].decode("utf-8", "surrogateescape")
        self._position = int.from_bytes(body[:8], "little")

    def _known(self, events: Events) -> Events:
        """Refuse unknown events; leave out those that may be ignored, and those before the start."""
        keep = np.ones(len(events), np.bool_)
        for index in np.flatnonzero(~_KNOWN[events.kind]).tolist():
            kind = int(events.kind[index])
            if not (kind > LAST_KNOWN and events.flags[index] & IGNORABLE):
                raise refused(kind, str(events.place(index)))
            keep[index] = False
            self._report_ignored(kind, events.place(index))
        if self._skip is not None:
            keep &= self._is_wanted(events, self._skip)
        return events if keep.all() else events.pick(keep)

    def _report_ignored(self, kind: int, place: FilePosition) -> None:
        if kind not in self._told:
            self._told.add(kind)
            log.warning(
                "binlog.unknown_event_ignored", type=kind, position=str(place), why="the server marks it ignorable"
            )

    def _is_wanted(self, events: Events, start: FilePosition) -> Bools:
        """A dump cannot start beyond 4 GiB, so the file is read from its beginning up to there."""
        borders = lookup((Kind.ROTATE, Kind.FORMAT_DESCRIPTION))[events.kind]
        other_file = np.array([name != start.file for name in events.names])[events.file]
        return np.asarray(borders | other_file | (events.position > start.position))
