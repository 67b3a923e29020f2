"""Named steps of the threads of a process, recorded when asked for.

A plugin wraps what may take long:

    with step("chunk.read", table):
        ...

Nothing is recorded otherwise, and a step costs one comparison. Names are the same for each repetition (`part.verb`); what
differs, such as the table, goes into `about`. Neither holds a secret or a value of a row: both are printed.

Steps of one thread nest. Steps that Spark's executors record while they work on a task of `run_on_executors` come to the
driver with the task's result, and are lost with a task that fails.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, TypeVar

Part = TypeVar("Part")
MOST_STEPS: Final = 50_000
"""So many are kept one by one, the first ones; what a long run records after them is only counted."""
_AT_ONCE_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Step:
    """One step that has ended.

    Attributes:
        name: What was done.
        about: To what: a table, say; may be empty.
        process: Its number.
        thread: Its name.
        began: Seconds since 1970, by the clock of its machine.
        seconds: How long it took.
        is_wait: Whether the thread did nothing itself but wait for others.
    """

    name: str
    about: str
    process: int
    thread: str
    began: float
    seconds: float
    is_wait: bool = False

    @property
    def ended(self) -> float:
        """When it ended, as `began`."""
        return self.began + self.seconds


class Timeline:
    """The steps of one recording. Safe from any thread."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.left_out = 0
        self._last: dict[tuple[int, str], int] = {}
        self._lock = threading.Lock()

    def add(self, steps: Iterable[Step]) -> None:
        """Keep steps, as long as there is room; a wait that goes on at once is one with the wait before it."""
        with self._lock:
            for one in steps:
                thread = one.process, one.thread
                at = self._last.get(thread)
                if at is not None and _goes_on(self.steps[at], one):
                    began = self.steps[at].began
                    self.steps[at] = replace(one, began=began, seconds=one.ended - began)
                elif len(self.steps) < MOST_STEPS:
                    self._last[thread] = len(self.steps)
                    self.steps.append(one)
                else:
                    self._last.pop(thread, None)
                    self.left_out += 1


def _goes_on(before: Step, one: Step) -> bool:
    is_same = one.is_wait and before.is_wait and (before.name, before.about) == (one.name, one.about)
    return is_same and 0 <= one.began - before.ended < _AT_ONCE_SECONDS


_recording: Timeline | None = None


def record() -> Timeline:
    """Record the steps of this process from now on; a recording that is on ends."""
    global _recording  # noqa: PLW0603 - one for the process, as the steps of all its threads belong together
    _recording = Timeline()
    return _recording


def end_recording() -> None:
    """Record no more; may be called twice."""
    global _recording  # noqa: PLW0603
    _recording = None


def recording() -> Timeline | None:
    """The recording that is on."""
    return _recording


class _Nothing:
    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class _Running:
    __slots__ = ("_about", "_began", "_clock", "_is_wait", "_name", "_timeline")

    def __init__(self, timeline: Timeline, name: str, about: object, *, is_wait: bool) -> None:
        self._timeline, self._name, self._about, self._is_wait = timeline, name, about, is_wait

    def __enter__(self) -> None:
        self._began, self._clock = time.time(), time.monotonic()

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        seconds = time.monotonic() - self._clock
        thread = threading.current_thread().name
        done = Step(self._name, str(self._about), os.getpid(), thread, self._began, seconds, self._is_wait)
        self._timeline.add([done])


_NOTHING: Final = _Nothing()


def step(name: str, about: object = "") -> _Nothing | _Running:
    """A context in which the step `name` is done; recorded when it ends, by an error too.

    Args:
        name: What is done, the same at each repetition.
        about: To what; as text it is printed.
    """
    return _NOTHING if _recording is None else _Running(_recording, name, about, is_wait=False)


def timed(name: str, parts: Iterable[Part]) -> Iterable[Part]:
    """`parts`, with a step for the making of each; itself where nothing is recorded."""
    return parts if _recording is None else _each_timed(name, iter(parts))


def _each_timed(name: str, parts: Iterator[Part]) -> Iterator[Part]:
    end = object()
    while True:
        with step(name):
            part = next(parts, end)
        if part is end:
            return
        yield part  # type: ignore[misc]  # it is no end


def waiting(name: str, about: object = "") -> _Nothing | _Running:
    """As `step`, where this thread only waits for what others do."""
    return _NOTHING if _recording is None else _Running(_recording, name, about, is_wait=True)
