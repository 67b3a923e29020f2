"""Sums up the steps of a run: how long each took, and what went on while a thread waited."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from replicator_sdk.timeline import Step

KeyT = TypeVar("KeyT")
NOTHING: Final = "nothing recorded"
_NUMBER: Final = re.compile(r"[-_ ]*\(?\d[-_\d]*\)?$")


@dataclass(slots=True)
class StepTotal:
    """All steps of one name, of threads of one kind.

    Attributes:
        name: The steps' name.
        by: The threads' name without its number; `executors` for all of other processes.
        depth: Inside how many others the first one was.
        began: Seconds from the start of the run to the first one.
        seconds: Of all together: more than the run took where several went on at once.
        own: Of that, without the steps inside them.
        times: How many.
        is_wait: Whether they only wait.
    """

    name: str
    by: str
    depth: int
    began: float
    seconds: float = 0.0
    own: float = 0.0
    times: int = 0
    is_wait: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """What went on elsewhere during the waits of one name.

    Attributes:
        name: The waits' name.
        by: As of `StepTotal`.
        seconds: Of all together.
        meanwhile: Name of a step and the seconds for which at least one such went on, longest first; beside each other, so
            that their sum may be more than `seconds`.
    """

    name: str
    by: str
    seconds: float
    meanwhile: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a step in which no step inside it goes on."""

    step: Step
    began: float
    ended: float


def totals(steps: Sequence[Step], driver: int, start: float) -> list[StepTotal]:
    """One line for each name and kind of thread, in the order of the first ones.

    Args:
        steps: The recorded ones, in any order.
        driver: The number of the process whose threads are named.
        start: When the run began, in seconds since 1970.
    """
    found: dict[tuple[str, str], StepTotal] = {}
    for one, depth in _nested(steps):
        key = one.name, kind_of_thread(one, driver)
        total = found.get(key)
        if total is None:
            total = found[key] = StepTotal(*key, depth, one.began - start, is_wait=one.is_wait)
        total.seconds += one.seconds
        total.times += 1
    for piece in _pieces(steps):
        found[piece.step.name, kind_of_thread(piece.step, driver)].own += piece.ended - piece.began
    return sorted(found.values(), key=lambda t: (t.began, t.depth))


def waits(steps: Sequence[Step], driver: int) -> list[Wait]:
    """The waits, longest first, with what went on meanwhile."""
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    meanwhile: defaultdict[tuple[str, str], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for waiting, working, length in _spans(list(_pieces(steps))):
        for name, by in {(w.name, kind_of_thread(w, driver)) for w in waiting}:
            seconds[name, by] += length
            for other in working or {NOTHING}:
                meanwhile[name, by][other] += length
    return [Wait(*key, total, _longest_first(meanwhile[key])) for key, total in _longest_first(seconds)]


def _longest_first(seconds: Mapping[KeyT, float]) -> tuple[tuple[KeyT, float], ...]:
    return tuple(sorted(seconds.items(), key=lambda item: -item[1]))


def kind_of_thread(step: Step, driver: int) -> str:
    """The name of the step's thread without its number; `executors` where another process did it."""
    return _NUMBER.sub("", step.thread) or step.thread if step.process == driver else "executors"


def _nested(steps: Sequence[Step]) -> Iterator[tuple[Step, int]]:
    """The steps in the order of their beginnings, each with the number of those around it."""
    open_steps: dict[tuple[int, str], list[Step]] = defaultdict(list)
    for one in _sorted(steps):
        around = open_steps[one.process, one.thread]
        while around and around[-1].ended <= one.began:
            around.pop()
        yield one, len(around)
        around.append(one)


def _pieces(steps: Sequence[Step]) -> Iterator[_Piece]:
    """Of each thread the innermost step at every moment."""
    threads: dict[tuple[int, str], list[Step]] = defaultdict(list)
    for one in _sorted(steps):
        threads[one.process, one.thread].append(one)
    for of_thread in threads.values():
        yield from _pieces_of_thread(of_thread)


def _pieces_of_thread(steps: Sequence[Step]) -> Iterator[_Piece]:
    around: list[Step] = []
    at = 0.0

    def until(moment: float) -> Iterator[_Piece]:
        nonlocal at
        while around and at < moment:
            ended = min(moment, around[-1].ended)
            if ended > at:
                yield _Piece(around[-1], at, ended)
                at = ended
            if around[-1].ended <= moment:
                around.pop()
            else:
                break
        at = moment

    for one in steps:
        yield from until(one.began)
        around.append(one)
    if around:
        yield from until(max(one.ended for one in around))


def _spans(pieces: Sequence[_Piece]) -> Iterator[tuple[list[Step], set[str], float]]:
    """The time in spans in which the same pieces go on: the waits, the names of the steps that work, and the length."""
    changes = sorted(
        [(p.began, 1, number) for number, p in enumerate(pieces)]
        + [(p.ended, 0, number) for number, p in enumerate(pieces)]
    )
    running: dict[int, Step] = {}
    before = 0.0
    for moment, begins, number in changes:
        if running and moment > before:
            waiting = [s for s in running.values() if s.is_wait]
            if waiting:
                yield waiting, {s.name for s in running.values() if not s.is_wait}, moment - before
        before = moment
        if begins:
            running[number] = pieces[number].step
        else:
            running.pop(number, None)


def _sorted(steps: Sequence[Step]) -> list[Step]:
    return sorted(steps, key=lambda s: (s.began, -s.seconds))
