"""Keeps lines in files beside the state, in a thread of its own, so that whoever logs never waits for a store."""

from __future__ import annotations

import threading
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from replicator_sdk.errors import FencedError
from replicator_state.log_folder import FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_state import LogFolder, LogKind

_WAITING_BYTES: Final = 4 << 20
_SOON_BYTES: Final = 256 << 10
_FILE_LASTS: Final = timedelta(days=1)
_LONGEST_WAIT: Final = 60.0


class KeptLines:
    """Writes lines within a moment; a line that was written is never written again. `add` is safe from any thread.

    A process that is killed loses the lines of the last moments: 0.2 s on a local disk, 5 s where the store cannot append. While
    the store fails, up to 4 MiB wait in memory; then the oldest go, and a line says how many.

    Args:
        folder: Where.
        kind: Which files.
        run_id: The run, for their names.
        max_bytes: How much is kept, of earlier runs too.
        max_days: How long.
        lost: Makes the line that says how many were lost.
    """

    def __init__(
        self,
        folder: LogFolder,
        kind: LogKind,
        run_id: str,
        *,
        max_bytes: int,
        max_days: float,
        lost: Callable[[int], bytes],
    ) -> None:
        self._folder, self._kind, self._run_id, self._lost_line = folder, kind, run_id, lost
        self._max_bytes, self._max_days = max_bytes, max_days
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = self._lost = 0
        self._name, self._whole, self._written = "", bytearray(), 0
        self._began = datetime.min.replace(tzinfo=UTC)
        self._is_fenced = False
        self._lock = threading.Lock()
        self._some, self._soon, self._done = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"log-{kind}", daemon=True)
        self._thread.start()

    def add(self, line: bytes) -> None:
        """Keep a line, which ends with a line feed. Returns at once and raises nothing."""
        with self._lock:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            while self._waiting_bytes > _WAITING_BYTES:
                self._waiting_bytes -= len(self._waiting.popleft())
                self._lost += 1
            soon = self._waiting_bytes >= _SOON_BYTES
        self._some.set()
        if soon:
            self._soon.set()

    def close(self, seconds: float) -> bool:
        """Write what waits, for at most so long; whether everything is written that this run may write."""
        self._done.set()
        self._soon.set()
        self._some.set()
        self._thread.join(seconds)
        return self._is_fenced or not (self._thread.is_alive() or self._waiting or self._written < len(self._whole))

    def _loop(self) -> None:
        wait = self._folder.write_seconds
        while True:
            self._some.wait()
            self._soon.wait(wait)
            self._soon.clear()
            self._some.clear()
            ends = self._done.is_set()
            try:
                self._write()
                wait = self._folder.write_seconds
            except FencedError:
                self._is_fenced = True
                return
            except Exception:  # noqa: BLE001 - also one that the store does not know, of a bucket that is gone: a later write may work
                wait = min(_LONGEST_WAIT, 2 * max(wait, 1.0))
                self._some.set()
            if ends:
                return

    def _write(self) -> None:
        """Write what waits; what could not be written stays in `_whole`, and is written by the next call."""
        if self._written < len(self._whole):
            self._append()
        while self._waiting or self._lost:
            now = datetime.now(UTC)
            if not self._name or len(self._whole) >= FILE_BYTES or now - self._began >= _FILE_LASTS:
                self._begin_file(now)
            self._whole += self._take(FILE_BYTES - len(self._whole))
            self._append()

    def _append(self) -> None:
        self._folder.append(self._name, bytes(self._whole[self._written :]), bytes(self._whole))
        self._written = len(self._whole)

    def _begin_file(self, now: datetime) -> None:
        self._began = max(now, self._began + timedelta(microseconds=1))
        self._name = self._folder.begin(self._kind, self._run_id, self._began)
        self._whole, self._written = bytearray(), 0
        self._folder.prune(self._kind, self._max_bytes, now - timedelta(days=self._max_days))

    def _take(self, at_most: int) -> bytes:
        """The lines that wait, at most so many bytes of them, but one."""
        taken, size = list[bytes](), 0
        with self._lock:
            if self._lost:
                taken.append(self._lost_line(self._lost))
                self._lost = 0
            while self._waiting and (not taken or size + len(self._waiting[0]) <= at_most):
                line = self._waiting.popleft()
                size += len(line)
                taken.append(line)
            self._waiting_bytes -= size
        return b"".join(taken)
