"""The queue between a reader and the apply: bounded in bytes, so that a reader waits for a slow target."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Generic, TypeVar

from replicator_sdk.source import ReaderClosed

T = TypeVar("T")


class EventQueue(Generic[T]):
    """One producer, one consumer. An item larger than the whole bound is let in alone."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def nbytes(self) -> int:
        """Bytes waiting."""
        return self._bytes

    def put(self, item: T, nbytes: int) -> None:
        """Add an item; blocks while the queue is full.

        Raises:
            ReaderClosed: When the queue was closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._items or self._bytes + nbytes <= self._max_bytes)
            if self._closed:
                raise ReaderClosed
            self._items.append((item, nbytes))
            self._bytes += nbytes
            self._changed.notify_all()

    def get(self, timeout: float) -> T | None:
        """The next item; None when none came within `timeout` seconds.

        Raises:
            BaseException: What the producer failed with, once everything it put before is taken.
        """
        until = time.monotonic() + timeout
        with self._changed:
            while not self._items:
                if self._error is not None:
                    raise self._error
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            item, nbytes = self._items.popleft()
            self._bytes -= nbytes
            self._changed.notify_all()
            return item

    def fail(self, error: BaseException) -> None:
        """The producer ended with `error`."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def close(self) -> None:
        """Let a waiting or coming `put` raise `ReaderClosed`; what waits can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
