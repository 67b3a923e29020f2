"""What event streams are sent: of each thing its newest state only, so that a slow reader costs no memory.

A reader remembers the number of the last event that it was sent. What has changed since is sent in the order of its last change; of
what has changed more than once only the newest state. So there is no queue, whatever the number of streams.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ulid import ULID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_TOMBSTONES: Final = 20_000
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        number: Of all events of this service, rising.
        kind: `pipeline`, `deleted`, `table`, `status` or `begin`.
        text: Its data, JSON.
    """

    number: int
    kind: str
    text: str


class Written(str):
    """Data that is JSON already."""

    __slots__ = ()


class Numbers:
    """The numbers of events, of one start of the service. Safe from any thread."""

    def __init__(self) -> None:
        self.start = str(ULID())
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """The next one."""
        with self._lock:
            self._last += 1
            return self._last

    def text(self, number: int) -> str:
        """As the event's id."""
        return f"{self.start}-{number}"

    def parse(self, text: str | None) -> int | None:
        """The inverse; None for an id of another start, or for none."""
        start, _, number = (text or "").rpartition("-")
        return int(number) if start == self.start and number.isdecimal() and len(number) < 19 else None


class Topic:
    """The newest state of things that a stream shows. Safe from any thread.

    Args:
        numbers: The service's.
        read: Gives the kind and data of all things now, by key (`KIND:NAME`); it is called by one thread.
        key: Whose things: a namespace's, or those of one of its pipelines.
    """

    def __init__(
        self,
        numbers: Numbers,
        read: Callable[[], Mapping[str, tuple[str, Any]]],
        key: tuple[str, str | None] = ("", None),
    ) -> None:
        self.key = key
        self._numbers = numbers
        self._read = read
        self._lock = threading.Lock()
        self._events: OrderedDict[str, Event] = OrderedDict()
        self._origin = self._floor = numbers.next()
        self._is_filled = False
        self._listeners: dict[asyncio.AbstractEventLoop, set[asyncio.Event]] = {}
        self.left_at: float | None = time.monotonic()
        self.fails_since: float | None = None

    def refresh(self) -> None:
        """Read all things, and wake the streams where something has changed."""
        found = {key: (kind, _json(data)) for key, (kind, data) in self._read().items()}
        with self._lock:
            changed = not self._is_filled
            for key, (kind, text) in found.items():
                known = self._events.get(key)
                if known is None or known.text != text:
                    self._put(key, kind, text)
                    changed = True
            for key in [k for k, event in self._events.items() if k not in found and event.kind != "deleted"]:
                kind, _, name = key.partition(":")
                self._put(key, "deleted", json.dumps({"kind": kind, "id": name}, ensure_ascii=False))
                changed = True
            self._is_filled = True
            self._drop_tombstones()
        if changed:
            self.wake()

    def keep(self) -> None:
        """Count the time since the last stream from now on."""
        with self._lock:
            if self.left_at is not None:
                self.left_at = time.monotonic()

    def wake(self) -> None:
        """Have all streams look."""
        with self._lock:
            listeners = {loop: list(events) for loop, events in self._listeners.items()}
        for loop, events in listeners.items():
            try:
                loop.call_soon_threadsafe(_wake, events)
            except RuntimeError:  # the loop has ended, and its streams with it
                continue

    def beginning(self, last_id: str | None) -> int:
        """The number after which a stream goes on: of the last event that its reader has, or 0 when it is to be sent all."""
        number = self._numbers.parse(last_id)
        return 0 if number is None or number < self._floor else number

    def since(self, number: int) -> list[tuple[str, str, str, int]]:
        """Events after a number, the oldest first, a bounded number of them: id, kind, data and number. With 0: all things that there are.

        Empty too while nothing was read yet.
        """
        with self._lock:
            if not self._is_filled:
                return []
            if number == 0:
                return [(self._numbers.text(self._origin), "begin", "{}", self._origin)]
            newer: list[Event] = []
            for event in reversed(self._events.values()):
                if event.number <= number:
                    break
                newer.append(event)
        return [(self._numbers.text(e.number), e.kind, e.text, e.number) for e in reversed(newer[-_AT_ONCE:])]

    @contextmanager
    def listening(self, woken: asyncio.Event) -> Iterator[None]:
        """Set `woken` at each change within the block."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._listeners.setdefault(loop, set()).add(woken)
            self.left_at = None
        try:
            yield
        finally:
            with self._lock:
                self._listeners[loop].discard(woken)
                if not self._listeners[loop]:
                    del self._listeners[loop]
                self.left_at = None if self._listeners else time.monotonic()

    @property
    def streams(self) -> int:
        """How many streams show it."""
        with self._lock:
            return sum(map(len, self._listeners.values()))

    def _put(self, key: str, kind: str, text: str) -> None:
        self._events[key] = Event(self._numbers.next(), kind, text)
        self._events.move_to_end(key)

    def _drop_tombstones(self) -> None:
        """Forget the oldest of what is gone: a reader that has not heard of it by then is sent all."""
        gone = [key for key, event in self._events.items() if event.kind == "deleted"]
        for key in gone[: max(0, len(gone) - _TOMBSTONES)]:
            self._floor = max(self._floor, self._events.pop(key).number)


def _wake(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()


def _json(data: Any) -> str:
    return str(data) if isinstance(data, Written) else json.dumps(data, ensure_ascii=False)
