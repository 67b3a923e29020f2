"""Sends events by a transport, in order, from a queue that is bounded: one that does not answer holds up nothing else."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_runtime.observability.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()
EVENTS_AT_MOST: Final = 200
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_REFUSED: Final = frozenset({400, 413, 422})
"""What a receiver answers to an event that it will never take, such as one that is too large for it."""


class RefusedError(Exception):
    """A transport's receiver never takes an event. Its text says why, without anything of the event."""


class Publisher:
    """Used by one thread.

    Args:
        open_transport: Makes the transport at the first send, and again after an error.
    """

    def __init__(self, open_transport: Callable[[], Any]) -> None:
        self._open = open_transport
        self._transport: Any = None
        self._waiting: deque[Any] = deque()
        self._lost = 0
        self._failures = 0
        self._not_before = 0.0

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self._waiting)

    def add(self, event: Any) -> None:
        """Queue an event. Of too many the oldest but the first is dropped, so that consumers learn of the run's begin and end."""
        self._waiting.append(event)
        if len(self._waiting) > EVENTS_AT_MOST:
            del self._waiting[1]
            self._lost += 1

    def send(self, *, at_once: bool = False) -> bool:
        """Send what waits, up to the first that fails, which is tried again later; never raises.

        Args:
            at_once: Whether to try although the wait after an error is not over.

        Returns:
            Whether all has arrived after events that were lost: what they said is to be said again.
        """
        if not self._waiting or (not at_once and time.monotonic() < self._not_before):
            return False
        try:
            if self._transport is None:
                self._transport = self._open()
            while self._waiting:
                self._emit(self._waiting[0])
                self._waiting.popleft()
        except Exception as failure:  # noqa: BLE001 - lineage holds up no data
            self._failed(failure)
            return False
        lost = self._lost
        if self._failures:
            log.info("lineage.published_again", lost=lost)
        self._failures = self._lost = 0
        return lost > 0

    def _emit(self, event: Any) -> None:
        """Have the transport send it; one that the receiver refuses for good is lost, so that it does not hold up those after it."""
        try:
            self._transport.emit(event)
        except Exception as failure:
            status = getattr(getattr(failure, "response", None), "status_code", None)
            if status not in _REFUSED and not isinstance(failure, RefusedError):
                raise
            log.warning("lineage.refused", status=str(failure) if status is None else status)

    def _failed(self, failure: Exception) -> None:
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self._failures, 10))
        self._not_before = time.monotonic() + wait
        if not self._failures:
            # Its text only: a traceback could show the transport's settings.
            log.warning("lineage.not_published", error=redact(f"{type(failure).__name__}: {failure}")[:500])
        self._failures += 1

    def close(self, seconds: float) -> None:
        """Send what waits once more and close the transport; what could not be sent is lost, with a warning."""
        self.send(at_once=True)
        if self._waiting or self._lost:
            log.warning("lineage.lost", events=len(self._waiting) + self._lost)
        if self._transport is not None:
            try:
                self._transport.close(seconds)
            except Exception as failure:  # noqa: BLE001 - likewise
                self._failed(failure)
