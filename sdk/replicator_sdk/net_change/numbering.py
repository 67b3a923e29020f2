"""Sequence numbers of tables that keep several rows of a key: each above those that the table has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Numbering:
    """How changes are numbered, so that each number is above those in the table: where a publication loses a table the same log is
    numbered lower than before, and the numbers of a Kafka topic are of its partition.

    Attributes:
        highest: The highest number in the table.
        lowest: The lowest of the changes.
    """

    highest: int
    lowest: int

    @property
    def added(self) -> int:
        """What is added to the numbers of the changes; 0 where they are above those in the table, as nearly always."""
        return max(0, self.highest + 1 - self.lowest)
