"""Changes of structure that were told from the catalogue, kept so that a replay tells them at the same place.

A change that no row announces has no place in the log but the one it was told at. After a crash the catalogue may have
moved on, so what was told is kept in state before it is emitted, and told again, not asked for again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from replicator_sdk.schema import TableId, TableSchema
from replicator_source_postgres.offset import PostgresOffset

STATE_KEY = "postgres-told"


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A table's structure as it was told.

    Attributes:
        base: The offset it was told after.
        end: The offset after it.
        oid: The table's object identifier.
        before: Its name before.
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
        """The form kept in state."""
        return {
            "base": _dump(self.base),
            "end": _dump(self.end),
            "oid": self.oid,
            "before": self.before.to_json(),
            "schema": self.schema.to_json(),
            "needsSnapshot": self.needs_snapshot,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ToldChange:
        """The inverse of `to_json`; also reads what older versions kept, the log position alone."""
        if "base" in value:
            base, end = _load(value["base"]), _load(value["end"])
        else:
            base = PostgresOffset(value["at"])
            end = replace(base, step=1)
        schema = TableSchema.from_json(value["schema"])
        return cls(base, end, value["oid"], TableId.from_json(value["before"]), schema, value["needsSnapshot"])


def _dump(offset: PostgresOffset) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in offset.fields().items()}


def _load(stored: dict[str, str]) -> PostgresOffset:
    return PostgresOffset.from_fields({name: base64.b64decode(value) for name, value in stored.items()})


def dump_told(told: Iterable[ToldChange]) -> bytes:
    """The form kept in state."""
    return json.dumps([one.to_json() for one in told]).encode()


def load_told(stored: bytes | None) -> list[ToldChange]:
    """The inverse of `dump_told`, in the order they were told."""
    return [ToldChange.from_json(one) for one in json.loads(stored or b"[]")]
