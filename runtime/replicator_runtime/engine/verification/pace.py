"""Reads a table part by part where the source is not to be read as fast as it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PARTS_AT_MOST: Final = 64
"""So few, since all parts of what differs are put together again."""
ChunkT = TypeVar("ChunkT")
ReadT = TypeVar("ReadT")


class Pace(Protocol):
    """Holds what is read to a number of rows a second."""

    def now(self) -> float:
        """The time on its clock, in seconds."""

    def delay(self) -> float:
        """How long to wait before the next part is read, in seconds."""

    def took(self, rows: int, began: float) -> None:
        """A part of `rows` rows was read, from the time `began` on."""


def read_in_parts(
    chunks: Sequence[ChunkT],
    read: Callable[[Sequence[ChunkT]], ReadT],
    rows_of: Callable[[Any], int | None],
    rows_in_all: int,
    pace: Pace | None,
    wait: Callable[[float], None],
) -> list[ReadT]:
    """What `read` makes of all chunks at once; of part after part where there is a pace.

    Args:
        chunks: The table's; each is in one part.
        read: Reads some chunks.
        rows_of: How many rows were read, by what was made of them; None where that does not say it.
        rows_in_all: How many rows the table has, about, for parts of which `rows_of` says nothing.
        pace: Says how long to wait before each part.
        wait: Waits for so many seconds; called before each part, and may raise.
    """
    if pace is None:
        return [read(chunks)]
    found: list[ReadT] = []
    size = max(1, -(-len(chunks) // PARTS_AT_MOST))
    for start in range(0, max(1, len(chunks)), size):
        wait(pace.delay())
        part, began = chunks[start : start + size], pace.now()
        found.append(read(part))
        rows = rows_of(found[-1])
        pace.took(rows_in_all * len(part) // max(1, len(chunks)) if rows is None else rows, began)
    return found
