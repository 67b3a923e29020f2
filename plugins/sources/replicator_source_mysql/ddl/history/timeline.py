"""Values by the log position from which each is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, Self, TypeVar


class Place(Protocol):
    """A log position: totally ordered, with a JSON form."""

    def __lt__(self, other: Any, /) -> bool: ...

    def to_json(self) -> Any:
        """The form kept in state."""


P = TypeVar("P", bound=Place)
V = TypeVar("V")


class Timeline(Generic[P, V]):
    """Values of one table or database by the position from which each is valid, oldest first; None where it does not exist."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[tuple[P, V | None]] = []

    def __iter__(self) -> Iterator[tuple[P, V | None]]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def last(self) -> V | None:
        """The value at the newest position."""
        return self._steps[-1][1] if self._steps else None

    @property
    def since(self) -> P | None:
        """The position from which the last value is valid."""
        return self._steps[-1][0] if self._steps else None

    def put(self, place: P, value: V | None) -> Self:
        """`value` is valid from `place` on, which is not before any position put earlier."""
        if self._steps and not self._steps[-1][0] < place:
            self._steps.pop()
        self._steps.append((place, value))
        return self

    def rewind(self, place: P) -> bool:
        """Drop what is valid only from a position after `place`; returns whether that was anything."""
        kept = [step for step in self._steps if not place < step[0]]
        is_changed = len(kept) != len(self._steps)
        self._steps = kept
        return is_changed

    def prune(self, place: P) -> None:
        """Drop what is no longer valid at `place`; what is valid there or later stays."""
        newest = max((n for n, step in enumerate(self._steps) if not place < step[0]), default=0)
        self._steps = self._steps[newest:]
        if len(self._steps) == 1 and self._steps[0][1] is None and not place < self._steps[0][0]:
            self._steps = []
