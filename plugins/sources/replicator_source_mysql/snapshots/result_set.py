"""The rows of one SELECT as whole packets, and a result set's packets as columns.

A row of the text protocol is its values one after the other, each a length and bytes; the lengths are walked column by
column for all rows of a window at once, so that the work in Python grows with the columns and not with the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, Int64s, binary_ranges
from replicator_sdk.errors import BugError, RetryableError
from replicator_source_mysql.connect.packets import PacketReader, Packets

if TYPE_CHECKING:
    import pymysql

_QUERY = 3
_END, _ERROR = 0xFE, 0xFF
_END_SIZE = 9
_NULL = 0xFB
_WIDTHS = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_BLOCK = 1 << 20
_WAIT_SECONDS = 5.0
_SILENCE_SECONDS = 600.0


def select(connection: pymysql.Connection[Any], query: str, columns: int, doing: str) -> Iterator[Packets]:
    """Run `query` and yield its rows as they come; the connection can be used again once all are taken.

    Args:
        connection: In no other use.
        query: A SELECT.
        columns: How many columns it has to have.
        doing: What is done, for errors.

    Raises:
        MySQLError: When the server refuses or gives up in mid-stream; the caller converts it.
        RetryableError: When the connection is lost or the server stays silent.
        BugError: When the answer is not a result set of that many columns.
    """
    from pymysql.connections import MySQLResult

    unread: Any = connection
    result: Any = MySQLResult(connection)
    unread._execute_command(_QUERY, query)  # noqa: SLF001 - PyMySQL has no public method that leaves the rows unread
    result.init_unbuffered_query()
    result.unbuffered_active = False  # PyMySQL must not read what is read here
    if result.field_count != columns:
        raise _broken(doing, f"{result.field_count} columns where {columns} were asked for")
    reader = PacketReader(connection, unread._next_seq_id)  # noqa: SLF001 - as above
    yield from _rows(reader, doing)
    # What PyMySQL had read ahead was taken from it, and the socket's time limit is no longer the one it knows of.
    unread._rfile = unread._sock.makefile("rb")  # noqa: SLF001 - as above
    unread._current_timeout = None  # noqa: SLF001 - as above


def _rows(reader: PacketReader, doing: str) -> Iterator[Packets]:
    heard = time.monotonic()
    while True:
        packets = reader.take()  # before the first wait: PyMySQL may have had all of a short answer
        if not len(packets):
            if reader.receive(_WAIT_SECONDS, _BLOCK):
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_SECONDS:
                raise RetryableError(
                    f"{doing}: the server sent nothing for {_SILENCE_SECONDS:g} seconds",
                    code="RPL-3821",
                    hint="the attempt is repeated; look at what the server is busy with",
                )
            continue
        rest = _ended(packets)
        if rest is not None:
            if len(rest):
                yield rest
            return
        yield packets


def _ended(packets: Packets) -> Packets | None:
    """The rows before the end of the result set, None when it does not end here; only the last packet can be its end."""
    from pymysql import err

    start, end = int(packets.start[-1]), int(packets.end[-1])
    kind = int(packets.data[start]) if end > start else -1
    if kind == _ERROR:
        err.raise_mysql_exception(packets.data[start:end].tobytes())
    if kind == _END and end - start < _END_SIZE:
        return Packets(packets.data, packets.start[:-1], packets.end[:-1])
    return None


def gathered(blocks: Iterator[Packets], rows: int, size: int) -> Iterator[Packets]:
    """The same rows in windows of about `rows` rows or `size` bytes, whichever is less."""
    held: list[Packets] = []
    count = length = 0
    for block in blocks:
        for part in _cut(block, rows):
            held.append(part)
            count += len(part)
            length += int(part.end[-1] - part.start[0])
            if count >= rows or length >= size:
                yield _joined(held)
                held, count, length = [], 0, 0
    if held:
        yield _joined(held)


def _cut(block: Packets, rows: int) -> Iterator[Packets]:
    for first in range(0, len(block), rows):
        yield Packets(block.data, block.start[first : first + rows], block.end[first : first + rows])


def _joined(parts: Sequence[Packets]) -> Packets:
    if len(parts) == 1:
        return parts[0]
    pieces, starts, ends, moved = [], [], [], 0
    for part in parts:
        first, last = int(part.start[0]), int(part.end[-1])
        pieces.append(part.data[first:last])
        starts.append(part.start + (moved - first))
        ends.append(part.end + (moved - first))
        moved += last - first
    return Packets(np.concatenate(pieces), np.concatenate(starts), np.concatenate(ends))


def split_columns(packets: Packets, columns: int, doing: str) -> list[pa.BinaryArray]:
    """The columns of the rows in `packets` as the server wrote their values, NULL kept.

    Raises:
        BugError: When a row has another number of columns.
    """
    data, place = packets.data, packets.start
    buffer = pa.py_buffer(data)
    arrays = []
    try:
        for _ in range(columns):
            start, length, present = _cells(data, place)
            place = start + length
            arrays.append(binary_ranges(buffer, start, place, present=present))
    except IndexError:
        raise _broken(doing, "a row that is too short") from None
    if not np.array_equal(place, packets.end):
        raise _broken(doing, "a row of another length than its values")
    return arrays


def _cells(data: Bytes, place: Int64s) -> tuple[Int64s, Int64s, Bools | None]:
    """Where the values at `place` begin, how long they are, and which are not NULL (None when all are)."""
    first = data.take(place)
    start, length = place + 1, first.astype(np.int64)
    special = np.flatnonzero(first >= _NULL)
    if not len(special):
        return start, length, None
    present = first != _NULL
    length[~present] = 0
    for mark, width in _WIDTHS.items():
        rows = special[first[special] == mark]
        if not len(rows):
            continue
        at = place[rows]
        length[rows] = sum(data.take(at + 1 + byte).astype(np.int64) << (8 * byte) for byte in range(width))
        start[rows] += width
    return start, length, present


def _broken(doing: str, what: str) -> BugError:
    return BugError(
        f"{doing}: the server answered with {what}",
        code="RPL-3822",
        hint="report it with the server's version; nothing of the answer was used",
    )
