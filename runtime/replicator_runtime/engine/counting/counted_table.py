"""What is counted of one table, and up to where."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk import Counted, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_sdk import Offset, TableProgress

COPIED: Final = "snapshot.rows"
_CHANGES: Final = ("dml.insert", "dml.update", "dml.delete")


@dataclass(slots=True)
class CountedTable:
    """Counts of one table.

    Attributes:
        copy: The copy of it whose changes are counted.
        position: Up to where they are; None before any change was counted.
        counts: Name → number.
        series: Names this count in what a target stores of it; empty before it needs a name.
        plan: The plan whose rows were counted last.
        plan_rows: How many of them.
    """

    copy: str = ""
    position: Position | None = None
    counts: dict[str, int] = field(default_factory=dict)
    series: str = ""
    plan: str = ""
    plan_rows: int = 0

    def named(self) -> bool:
        """Give it a name that no other count has; returns whether that is new."""
        is_new = not self.series
        self.series = self.series or uuid.uuid4().hex[:16]
        return is_new

    def of_changes(self) -> Counted:
        """The counts of inserts, updates and deletes, as a target is to store them."""
        return Counted(self.series, *(self.counts.get(name, 0) for name in _CHANGES))

    def missing_rows(self, progress: TableProgress) -> int:
        """How many rows of the plan that `progress` names are at the target and not counted."""
        known = self.plan_rows if self.plan == progress.snapshot_id else 0
        return max(0, progress.snapshot_rows - known) if progress.snapshot_id else 0

    def missing_changes(self, progress: TableProgress) -> dict[str, int]:
        """How many changes the target has counted and this has not; none where the target's count is another one."""
        stored = progress.counted
        if stored is None or not self.series or stored.series != self.series:
            return {}
        found = zip(_CHANGES, (stored.inserts, stored.updates, stored.deletes), strict=True)
        return {name: number - self.counts.get(name, 0) for name, number in found if number > self.counts.get(name, 0)}

    def add_rows(self, plan: str, rows: int) -> dict[str, int]:
        """So many rows of the plan are at the target as well; returns what they count."""
        self.plan_rows = rows + (self.plan_rows if self.plan == plan else 0)
        self.plan = plan
        return {_CHANGES[0]: rows, COPIED: rows}

    def to_json(self) -> dict[str, Any]:
        """The JSON form, without the table's name."""
        position = {} if self.position is None else self.position.to_json()
        series = {"series": self.series} if self.series else {}
        plan = {"plan": self.plan, "planRows": self.plan_rows} if self.plan else {}
        return {"copy": self.copy, "counts": self.counts, **series, **plan, **position}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> CountedTable:
        """The inverse of `to_json`."""
        position = Position.from_json(value, read_offset) if "offset" in value else None
        series, plan, rows = value.get("series", ""), value.get("plan", ""), value.get("planRows", 0)
        return cls(value["copy"], position, dict(value["counts"]), series, plan, rows)
