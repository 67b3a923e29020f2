"""The low watermark of a table: the position up to which it has every change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator_sdk import Offset, Position


@dataclass(frozen=True, slots=True)
class Recount:
    """Changes that a table has, and that are not counted yet.

    Attributes:
        after: Those up to this position are counted, or are in the table's copy.
        until: Those after this position are not in the table.
    """

    after: Position
    until: Position

    def takes(self, position: Position) -> bool:
        """Whether the change that ends at `position` is one of them."""
        return self.after < position <= self.until


@dataclass(slots=True)
class TableWatermark:
    """From which position on a table takes changes.

    Attributes:
        position: Every change up to it is in the table.
        overlap_until: Until this offset changes may repeat what the table's snapshot holds; None when it is exact.
        filtered: Whether some operations are left out, so that an insert may find a row that the source deleted.
        lacks_rows: Whether rows are left out, by the copy or since, so that a removal may be of a row that never arrives.
        recount: The changes that a replay is to count although the table has them; None for none.
        is_part: Whether the copy left rows out, so that an update may be of a row that the target does not have.
    """

    position: Position
    overlap_until: Offset | None = None
    filtered: bool = False
    lacks_rows: bool = False
    is_part: bool = False
    recount: Recount | None = None

    def overlaps(self, offset: Offset) -> bool:
        """Whether changes after `offset` may repeat what the snapshot holds."""
        return self.overlap_until is not None and offset < self.overlap_until
