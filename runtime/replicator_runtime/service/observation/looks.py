"""Reads the states of pipelines in threads of its own, so that no one waits for a state that does not answer."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from replicator_runtime.service.observation.state_reader import Seen, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replicator_runtime.service.observation.state_reader import StateReader

WAIT_SECONDS: Final = 1.0
"""For longer no one waits: who asks gets what was seen last."""
SILENT_SECONDS: Final = 30.0
"""After that a state that has not answered is shown as one that cannot be read."""
_THREADS: Final = 32
_OF_A_PLACE: Final = 4
"""Threads that read below one base path: one that hangs leaves the others to the other places."""


@dataclass(slots=True, eq=False)
class _Look:
    """One reading that waits or is under way."""

    reader: StateReader
    since: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    silent: Seen | None = None


class Looks:
    """Safe from any thread. Threads begin when there is something to read, and end after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[StateReader, _Look] = {}
        self._waiting: dict[str, deque[_Look]] = {}
        self._threads: Counter[str] = Counter()
        self._slow: WeakSet[StateReader] = WeakSet()

    def seen(self, readers: Iterable[StateReader]) -> list[Seen]:
        """What is known of each state: as it is now where that is read within a second, else as it was seen last."""
        asked = [(reader, self._begun(reader)) for reader in readers]
        until = time.monotonic() + WAIT_SECONDS
        for reader, look in asked:
            if look is not None and reader not in self._slow:
                look.done.wait(max(0.0, min(until, look.since + WAIT_SECONDS) - time.monotonic()))
        return [_known(reader, look) for reader, look in asked]

    def _begun(self, reader: StateReader) -> _Look | None:
        """The reading of a state that is under way, or begins now; None when what is known is new enough."""
        with self._lock:
            found = self._under_way.get(reader)
            if found is not None or not reader.is_due:
                return found
            look = self._under_way[reader] = _Look(reader)
            place = reader.directory.base_path
            self._waiting.setdefault(place, deque()).append(look)
            if self._threads[place] < _OF_A_PLACE and self._threads.total() < _THREADS:
                self._threads[place] += 1
                threading.Thread(target=self._work, args=(place,), name="states", daemon=True).start()
            return look

    def _work(self, place: str) -> None:
        while (look := self._next(place)) is not None:
            # It raises nothing: what it finds is in the reader, an error too.
            look.reader.look()
            with self._lock:
                is_slow = time.monotonic() - look.since > WAIT_SECONDS
                (self._slow.add if is_slow else self._slow.discard)(look.reader)
                del self._under_way[look.reader]
            look.done.set()
            place = look.reader.directory.base_path

    def _next(self, place: str) -> _Look | None:
        """The next one of a place; else of one that has no thread for it; None at the end of a thread."""
        with self._lock:
            if found := self._waiting.get(place):
                return found.popleft()
            self._threads[place] -= 1
            self._waiting.pop(place, None)
            for other, waiting in self._waiting.items():
                if waiting and self._threads[other] < _OF_A_PLACE:
                    self._threads[other] += 1
                    return waiting.popleft()
            self._threads = +self._threads
            return None


def _known(reader: StateReader, look: _Look | None) -> Seen:
    if look is None or look.done.is_set() or time.monotonic() - look.since < SILENT_SECONDS:
        return reader.last_seen
    if look.silent is None:
        look.silent = replace(reader.last_seen, error=unreadable(TimeoutError()))
    return look.silent
