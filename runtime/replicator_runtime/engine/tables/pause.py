"""What is stored of a table that an operator has paused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset


@dataclass(slots=True)
class Pause:
    """A pause, from the request to pause until the target has taken the table's lane.

    Attributes:
        lane: Names the files of its lane; no other pause has it.
        request: The last request to pause it.
        since: When that was carried out, in seconds since 1970.
        base: How far the target's table was when its lane began; None until an attempt has asked.
        resuming: Whether the lane is to be given to the target.
    """

    lane: str
    request: str
    since: float
    base: Position | None = None
    resuming: bool = False

    def to_json(self) -> dict[str, Any]:
        """The form stored."""
        return {
            "lane": self.lane,
            "request": self.request,
            "since": self.since,
            "base": None if self.base is None else self.base.to_json(),
            "resuming": self.resuming,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Pause:
        """The inverse of `to_json`."""
        base = value["base"]
        return cls(
            value["lane"],
            value["request"],
            value["since"],
            None if base is None else Position.from_json(base, read_offset),
            value["resuming"],
        )
