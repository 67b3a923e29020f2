"""Sends messages to one destination in a thread of its own, one after the other."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

from replicator_runtime.notices import delivery

if TYPE_CHECKING:
    from replicator_runtime.config.sections.destinations import Destination
    from replicator_runtime.notices.conditions import Key
    from replicator_runtime.notices.messages import Message

_FIRST_WAIT: Final = 2.0
_LONGEST_WAIT: Final = 300.0
_TWO_MESSAGES: Final = 15.0
_HANGS_AFTER: Final = 60.0


class Sender:
    """Has at most one message on its way. Asked by one thread; that one never waits for the service.

    After a failure the next message may go after 2 seconds, then after twice as long each time, up to 5 minutes. At most two
    messages arrive within 15 seconds: what comes piece by piece goes into one, and what is new after a quiet time, or after something was over, at once.

    Args:
        destination: Where to.

    Attributes:
        failures: How many messages in a row did not arrive.
    """

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.failures = 0
        self._answered_at = self._not_before = self._arrived_at = 0.0
        self._sent_at = 0.0
        self._is_known_to_hang = False
        self._on_its_way: tuple[tuple[Key, ...], tuple[Key, ...]] | None = None
        self._jobs: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name=f"notifications-{destination.number}", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a message is on its way."""
        return self._on_its_way is not None

    def may_send(self, now: float, *, is_last: bool = False) -> bool:
        """Whether a message may go now; with `is_last`, or when the clock was turned back since the last one, without waiting."""
        return not self.is_busy and (is_last or not self._answered_at <= now < self._not_before)

    def hangs(self, now: float) -> bool:
        """Whether the service has not answered for long; true once for each message."""
        hangs = self.is_busy and not self._is_known_to_hang and now - self._sent_at > _HANGS_AFTER
        self._is_known_to_hang |= hangs
        return hangs

    def send(self, message: Message, began: tuple[Key, ...], ended: tuple[Key, ...], now: float) -> None:
        """Send it; returns at once. The keys are given back with its result."""
        self._on_its_way, self._sent_at, self._is_known_to_hang = (began, ended), now, False
        self._jobs.put(message)

    def result(self, now: float) -> tuple[str, tuple[Key, ...], tuple[Key, ...]] | None:
        """Why the message did not arrive, empty when it did, and its keys; None while it is on its way, or there is none."""
        if self._on_its_way is None:
            return None
        try:
            why = self._results.get_nowait()
        except queue.Empty:
            return None
        began, ended = self._on_its_way
        self._on_its_way = None
        self.failures = self.failures + 1 if why else 0
        self._answered_at = now
        if why:
            self._not_before = now + min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(self.failures - 1, 10))
        else:
            is_known = self._arrived_at <= now  # else the clock was turned back
            self._not_before, self._arrived_at = self._arrived_at + _TWO_MESSAGES if is_known else now, now
        return why, began, ended

    def close(self) -> None:
        """End the thread, once the message that is on its way has been sent; does not wait."""
        self._jobs.put(None)

    def _loop(self) -> None:
        while (message := self._jobs.get()) is not None:
            try:
                self._results.put(delivery.send(self.destination, message))
            except Exception as failure:  # noqa: BLE001 - whatever a service does must not end this thread
                self._results.put(type(failure).__name__)
