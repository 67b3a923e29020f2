"""Schema changes that were emitted from the catalogue, stored so that a replay emits them at the same position.

A change that no row announces has no position in the log; it gets the one where it is emitted. After a crash the catalogue
may show later changes, so a change is stored in state before it is emitted, and a replay reads it from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from replicator_sdk.schema import TableId, TableSchema
from replicator_source_postgres.offset import PostgresOffset

STATE_KEY = "postgres-told"


@dataclass(frozen=True, slots=True)
class EmittedChange:
    """A table's schema as it was emitted.

    Attributes:
        base: The offset it was emitted after.
        end: The offset after it.
        oid: The table's object identifier.
        before: Its name; an earlier version renamed it with this change where `schema` has another one.
        schema: Its schema from then on.
        needs_snapshot: Whether rows hold values the log did not carry.
    """

    base: PostgresOffset
    end: PostgresOffset
    oid: int
    before: TableId
    schema: TableSchema
    needs_snapshot: bool

    def to_json(self) -> dict[str, Any]:
        """The form stored in state."""
        return {
            "base": self.base.to_json(),
            "end": self.end.to_json(),
            "oid": self.oid,
            "before": self.before.to_json(),
            "schema": self.schema.to_json(),
            "needsSnapshot": self.needs_snapshot,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> EmittedChange:
        """The inverse of `to_json`; also reads what older versions stored, the log position alone."""
        if "base" in value:
            base, end = PostgresOffset.from_json(value["base"]), PostgresOffset.from_json(value["end"])
        else:
            base = PostgresOffset(value["at"])
            end = replace(base, step=1)
        schema = TableSchema.from_json(value["schema"])
        return cls(base, end, value["oid"], TableId.from_json(value["before"]), schema, value["needsSnapshot"])


def dump_changes(changes: Iterable[EmittedChange]) -> bytes:
    """The form stored in state."""
    return json.dumps([one.to_json() for one in changes]).encode()


def load_changes(stored: bytes | None) -> list[EmittedChange]:
    """The inverse of `dump_changes`, in the order in which they were emitted."""
    return [EmittedChange.from_json(one) for one in json.loads(stored or b"[]")]
