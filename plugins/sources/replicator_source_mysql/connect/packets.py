"""MySQL's packets in bulk: rows of a result set or events of the binlog, a megabyte at a time instead of one by one.

A packet is a 24-bit little-endian length, a sequence number and a payload; a payload of 2^24 - 1 bytes goes on in the next
packet (MySQL's "Protocol Basics"). PyMySQL does the handshake and the command; from the first packet of the answer on the
socket is read here, since one call a packet costs more than decoding what is in it.
"""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicator_sdk.authoring.arrow_buffers import Bytes, Int64s
from replicator_sdk.errors import BugError, RetryableError

if TYPE_CHECKING:
    import pymysql


_BLOCK = 1 << 20
_FULL = 0xFFFFFF
_HEADER = 4


@dataclass(frozen=True, slots=True)
class Packets:
    """Whole packets, in the order they came.

    Attributes:
        data: The buffer that holds them; never written to again.
        start: Where each payload begins in `data`; ascending.
        end: Where each payload ends.
    """

    data: Bytes
    start: Int64s
    end: Int64s

    def __len__(self) -> int:
        return len(self.start)


class PacketReader:
    """Takes over the socket of a connection whose answer is still to be read. Used by one thread.

    Args:
        connection: A connection that has sent a command; PyMySQL must not read from it again.
        sequence: The number the next packet has to carry.
    """

    def __init__(self, connection: pymysql.Connection[Any], sequence: int) -> None:
        self._socket: Any = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001 - PyMySQL has no public name for it
        self._buffer = bytearray(self._read_ahead(connection))
        self._sequence = sequence & 0xFF

    def _read_ahead(self, connection: Any) -> bytes:
        """What PyMySQL's buffered file has taken from the socket already."""
        self._socket.settimeout(0.0)
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
            return bytes(connection._rfile.peek())  # noqa: SLF001 - as above
        return b""

    @property
    def waiting_bytes(self) -> int:
        """How many bytes have been received but not taken."""
        return len(self._buffer)

    def receive(self, wait_seconds: float, limit: int = _BLOCK) -> int:
        """Wait up to `wait_seconds` for bytes and receive what is there, about `limit` bytes at most; returns how many came.

        Raises:
            RetryableError: When the connection is lost.
        """
        came = 0
        self._socket.settimeout(wait_seconds)
        try:
            while came < limit and (block := self._socket.recv(_BLOCK)):
                self._buffer += block
                came += len(block)
                self._socket.settimeout(0.0)
            if came >= limit:
                return came
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return came
        except OSError as err:
            raise _lost(f"{err.strerror or type(err).__name__}") from err
        if came:
            return came  # the end of the connection shows again at the next call, after what came is taken
        raise _lost("the server closed it")

    def take(self) -> Packets:
        """All packets that are here as a whole; what is left stays for the next call.

        Raises:
            BugError: When a packet is out of order, so that the stream cannot be trusted any more.
        """
        starts, ends, at = self._frame()
        if at == 0:  # a large packet on its way is not copied each time
            return Packets(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
        whole, self._buffer = self._buffer, self._buffer[at:]
        data = np.frombuffer(whole, np.uint8, count=at)
        return Packets(data, np.array(starts, np.int64), np.array(ends, np.int64))

    def _frame(self) -> tuple[list[int], list[int], int]:
        buffer, size, sequence = self._buffer, len(self._buffer), self._sequence
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        while at + _HEADER <= size:
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            end = at + _HEADER + length
            if end > size:
                break
            if buffer[at + 3] != sequence:
                raise BugError(
                    f"the server's packet has number {buffer[at + 3]}, {sequence} was due",
                    code="RPL-3700",
                    hint="start again; report it with the server's version if it comes back",
                )
            if length == _FULL:
                joined = self._join(at, sequence)
                if joined is None:
                    break
                payload_end, end, sequence = joined
            else:
                payload_end = end
            sequence = (sequence + 1) & 0xFF
            starts.append(at + _HEADER)
            ends.append(payload_end)
            at = end
        self._sequence = sequence
        return starts, ends, at

    def _join(self, at: int, sequence: int) -> tuple[int, int, int] | None:
        """Close the gaps between the parts of a payload that goes over several packets.

        Returns:
            Where the payload ends, where its last packet ended, and that one's number; None when it is not all here.
        """
        buffer = self._buffer
        parts: list[tuple[int, int]] = []
        length = _FULL
        place = at
        while True:
            if place + _HEADER > len(buffer):
                return None
            length = int.from_bytes(buffer[place : place + 3], "little")
            if place + _HEADER + length > len(buffer):
                return None
            parts.append((place + _HEADER, length))
            place += _HEADER + length
            if length < _FULL:
                break
        end = parts[0][0] + parts[0][1]
        for start, size in parts[1:]:
            buffer[end : end + size] = buffer[start : start + size]
            end += size
        return end, place, (sequence + len(parts) - 1) & 0xFF


def _lost(why: str) -> RetryableError:
    return RetryableError(
        f"the connection to the server was lost: {why}",
        code="RPL-3701",
        hint="it is made again; if that goes on, look at the server's error log and at its wait and write timeouts",
    )
