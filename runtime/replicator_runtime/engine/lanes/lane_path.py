"""Puts a lane together from its entries: which of them follow each other from a position on."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from replicator_runtime.engine.lanes.lane_file import LaneEntry
    from replicator_sdk import Position


def find_path(
    entries: Iterable[LaneEntry], base: str, end_of: Callable[[LaneEntry], Position]
) -> list[LaneEntry] | None:
    """The entries from `base` to the farthest position that they reach; None when `base` is inside one, or elsewhere.

    The log determines what is between two positions. So it does not matter which of several ways is taken, nor which run
    wrote an entry: a run that was superseded may have written some beside those of the newer one, cut elsewhere.

    Args:
        entries: All of a lane.
        base: The name of a position.
        end_of: Where an entry ends; called only where the names do not decide.
    """
    following: dict[str, list[LaneEntry]] = defaultdict(list)
    for entry in entries:
        following[entry.begins].append(entry)
    if (
        following
        and base not in following
        and all(entry.ends != base for found in following.values() for entry in found)
    ):
        return None
    came_by = _reached(following, base)
    lasts = [entry for entry in came_by.values() if entry.ends not in following]
    if not lasts:
        return []
    last = lasts[0] if len(lasts) == 1 else max(lasts, key=lambda entry: _Comparable(end_of(entry)))
    path = [last]
    while path[-1].begins != base:
        path.append(came_by[path[-1].begins])
    return path[::-1]


def leading_to(entries: Iterable[LaneEntry], base: str) -> list[LaneEntry]:
    """The entries with nothing but what is before `base`, in no order."""
    ending: dict[str, list[LaneEntry]] = defaultdict(list)
    for entry in entries:
        ending[entry.ends].append(entry)
    found: list[LaneEntry] = []
    waiting = [base]
    while waiting:
        for entry in ending.pop(waiting.pop(), ()):
            found.append(entry)
            waiting.append(entry.begins)
    return found


def path_between(entries: Iterable[LaneEntry], begin: str, end: str) -> list[LaneEntry] | None:
    """The entries from the position that `begin` names to the one that `end` names; None when they do not lead there."""
    if begin == end:
        return []
    following: dict[str, list[LaneEntry]] = defaultdict(list)
    for entry in entries:
        following[entry.begins].append(entry)
    came_by = _reached(following, begin)
    if end not in came_by:
        return None
    path = [came_by[end]]
    while path[-1].begins != begin:
        path.append(came_by[path[-1].begins])
    return path[::-1]


def _reached(following: dict[str, list[LaneEntry]], base: str) -> dict[str, LaneEntry]:
    """Each position that is reached from `base`, and the entry that ends there."""
    came_by: dict[str, LaneEntry] = {}
    waiting = [base]
    while waiting:
        for entry in following.get(waiting.pop(), ()):
            if entry.ends not in came_by and entry.ends != base:
                came_by[entry.ends] = entry
                waiting.append(entry.ends)
    return came_by


class _Comparable:
    """A position as a key of `max`, which asks for `>`."""

    def __init__(self, position: Position) -> None:
        self._position = position

    def __gt__(self, other: _Comparable) -> bool:
        return other._position < self._position
