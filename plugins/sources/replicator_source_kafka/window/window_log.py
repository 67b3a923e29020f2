"""Saves the end of every window, and how many events a record of it may be, before anything of the window is emitted.

Partitions have no common order, so the end of a window depends on what the brokers happened to send. A replay must end its
windows at the same offsets, since tables store their position as such an offset. So the ends of windows are saved first, and
kept as long as a restart may need them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from replicator_sdk.context import DeltaSourceContext
from replicator_source_kafka.offset import KafkaOffset

_KEY: Final = "window-plan"
_WIDTH: Final = "/width"
"""No topic has a name like it."""
_WINDOWS_A_SECOND: Final = 1000


class WindowLog:
    """The ends of windows after the durable offset, in order. Used by the reader's thread.

    A window may be saved and not emitted; a restart then begins with it.
    """

    def __init__(self, context: DeltaSourceContext) -> None:
        self._context = context
        self._windows: list[tuple[KafkaOffset, int]] = []

    @property
    def seconds_between(self) -> float:
        """The wait before the next window. It grows with the number of saved windows, which grows while the durable
        offset does not advance because a table has stopped.
        """
        return len(self._windows) / _WINDOWS_A_SECOND

    def resume(self, offset: KafkaOffset) -> None:
        """Return to `offset`: the saved windows after it are read again, those before it are dropped."""
        stored = self._context.get_state(_KEY)
        self._windows = [window for window in _load(stored) if offset < window[0]] if stored else []

    @property
    def last(self) -> KafkaOffset | None:
        """The end of the last saved window; None if there is none."""
        return self._windows[-1][0] if self._windows else None

    def next_end(self, offset: KafkaOffset) -> KafkaOffset | None:
        """The end of the saved window after `offset`; None if there is none."""
        return next((end for end, _ in self._windows if offset < end), None)

    def width(self, end: KafkaOffset) -> int:
        """How many events each record of the saved window that ends at `end` may be."""
        return next(width for kept, width in self._windows if kept == end)

    def add(self, end: KafkaOffset, width: int = 1) -> None:
        """Save a window that ends at `end`, after all others; durable on return."""
        committed = self._context.committed_offset()
        if isinstance(committed, KafkaOffset):
            self._windows = [window for window in self._windows if committed < window[0]]
        self._windows.append((end, width))
        self._context.put_state(_KEY, _dump(self._windows))


def _dump(windows: list[tuple[KafkaOffset, int]]) -> bytes:
    """The first offset in full, then the differences between offsets; each with its width before it, where that is not 1."""
    ends = [end for end, _ in windows]
    steps = [ends[0].to_json(), *(_step(begin, end).to_json() for begin, end in pairwise(ends))]
    stored = [
        step if width == 1 else {_WIDTH: width, "to": step} for (_, width), step in zip(windows, steps, strict=True)
    ]
    return zlib.compress(json.dumps(stored, separators=(",", ":")).encode(), 1)


def _load(stored: bytes) -> Iterator[tuple[KafkaOffset, int]]:
    end = KafkaOffset({})
    steps: list[dict[str, Any]] = json.loads(zlib.decompress(stored))
    for value in steps:
        width = int(value.get(_WIDTH, 1))
        step = KafkaOffset.from_json(value["to"] if _WIDTH in value else value)
        end = KafkaOffset({**end.topics, **step.topics}, {**end.next, **step.next}, {**end.epochs, **step.epochs})
        yield end, width


def _step(begin: KafkaOffset, end: KafkaOffset) -> KafkaOffset:
    changed = {tp: there for tp, there in end.next.items() if begin.next.get(tp) != there}
    names = {topic for topic, _ in changed} | (set(end.topics) - set(begin.topics))
    epochs = {tp: epoch for tp, epoch in end.epochs.items() if tp in changed and begin.epochs.get(tp) != epoch}
    return KafkaOffset({name: end.topics[name] for name in names}, changed, epochs)
