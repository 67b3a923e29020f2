"""SIGINT and SIGTERM: the first asks for an orderly end, the second ends at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_REQUEST_SECONDS = 0.5


class StopSignals:
    """While open, the first signal calls `stop`; the second ends the process at once, as a crash would.

    A crash loses nothing, since the next run continues from the saved offset; so ending at once is safe. Main thread only.
    What arrives within half a second is one request: `timeout` signals its child, and then the child's whole group.

    Attributes:
        received: The first signal's number; 0 when none came.
    """

    def __init__(self, stop: Callable[[], None], say: Callable[[str], None]) -> None:
        self.received = 0
        self._first = 0.0
        self._stop = stop
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """The exit code for the signal received, as shells give it; 0 when none came."""
        return 128 + self.received if self.received else 0

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.received:
            if now - self._first > SAME_REQUEST_SECONDS:
                os._exit(128 + number)
            return
        self.received, self._first = number, now
        self._stop()
        self._say("stopping: what is gathered is applied first; once more ends at once")
