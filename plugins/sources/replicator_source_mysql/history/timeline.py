"""What holds from which place of the log on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, Self, TypeVar


class Place(Protocol):
    """A place of the log: totally ordered, with a JSON form."""

    def __lt__(self, other: Any, /) -> bool: ...

    def to_json(self) -> Any:
        """The form kept in state."""


P = TypeVar("P", bound=Place)
V = TypeVar("V")


class Timeline(Generic[P, V]):
    """Values of one thing by the place from which each holds, oldest first; None where the thing is not there."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[tuple[P, V | None]] = []

    def __iter__(self) -> Iterator[tuple[P, V | None]]:
        return iter(self._steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def last(self) -> V | None:
        """What holds at the newest place."""
        return self._steps[-1][1] if self._steps else None

    @property
    def since(self) -> P | None:
        """The place from which the last one holds."""
        return self._steps[-1][0] if self._steps else None

    def put(self, place: P, value: V | None) -> Self:
        """`value` holds from `place` on, which is not before any place put earlier."""
        if self._steps and not self._steps[-1][0] < place:
            self._steps.pop()
        self._steps.append((place, value))
        return self

    def rewind(self, place: P) -> bool:
        """Drop what holds only from a place behind `place`; whether that was anything."""
        kept = [step for step in self._steps if not place < step[0]]
        is_changed = len(kept) != len(self._steps)
        self._steps = kept
        return is_changed

    def prune(self, place: P) -> None:
        """Drop what no longer holds at `place`; what holds there stays, and so does everything behind it."""
        newest = max((n for n, step in enumerate(self._steps) if not place < step[0]), default=0)
        self._steps = self._steps[newest:]
        if len(self._steps) == 1 and self._steps[0][1] is None and not place < self._steps[0][0]:
            self._steps = []
