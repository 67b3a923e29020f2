"""What is counted of a table whose changes executors apply, stored with the table: after a kill no one else knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Counted:
    """How many changes were applied to a table, of the rows that it has and had.

    Attributes:
        series: Which count goes on: two of different series are not compared.
        inserts: INSERTs.
        updates: UPDATEs.
        deletes: DELETEs.
    """

    series: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    def plus(self, inserts: int, updates: int, deletes: int) -> Counted:
        """The same after so many more."""
        return Counted(self.series, self.inserts + inserts, self.updates + updates, self.deletes + deletes)

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {"series": self.series, "changes": [self.inserts, self.updates, self.deletes]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Counted:
        """The inverse of `to_json`."""
        return cls(value["series"], *value["changes"])
