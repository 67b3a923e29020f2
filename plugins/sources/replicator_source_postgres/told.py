"""Changes of structure that were told from the catalogue, kept so that a replay tells them at the same place.

A change that no row announces has no place in the log but the one it was told at. After a crash the catalogue may have
moved on, so what was told is kept in state before it is emitted, and told again, not asked for again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from replicator_sdk.schema import TableId, TableSchema

STATE_KEY = "postgres-told"
_KEPT = 200


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A table's structure as it was told.

    Attributes:
        at: The log position it was told after.
        oid: The table's object identifier.
        before: Its name before.
        schema: Its schema from then on.
        needs_snapshot: Whether rows hold values the log did not carry.
    """

    at: int
    oid: int
    before: TableId
    schema: TableSchema
    needs_snapshot: bool

    def to_json(self) -> dict[str, Any]:
        """The form kept in state."""
        return {
            "at": self.at,
            "oid": self.oid,
            "before": self.before.to_json(),
            "schema": self.schema.to_json(),
            "needsSnapshot": self.needs_snapshot,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ToldChange:
        """The inverse of `to_json`."""
        schema = TableSchema.from_json(value["schema"])
        return cls(value["at"], value["oid"], TableId.from_json(value["before"]), schema, value["needsSnapshot"])


def dump_told(told: list[ToldChange]) -> bytes:
    """The newest of them, in the form kept in state."""
    return json.dumps([one.to_json() for one in told[-_KEPT:]]).encode()


def load_told(stored: bytes | None) -> list[ToldChange]:
    """The inverse of `dump_told`, in the order they were told."""
    return [ToldChange.from_json(one) for one in json.loads(stored or b"[]")]
