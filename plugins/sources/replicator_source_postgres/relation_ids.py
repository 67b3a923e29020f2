"""Object identifiers (oid) of the captured tables, kept over restarts: a renamed table is still the same table."""

from __future__ import annotations

import json
from collections.abc import Container

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.schema import TableId

STATE_KEY = "postgres-tables"


class RelationIds(dict[int, TableId]):
    """Identifier → last name, and former names.

    The stored names may be newer than the offset a reader starts from, as after a crash, so a table is also found by its
    former names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.former: dict[TableId, int] = {}

    def rename(self, oid: int, name: TableId) -> None:
        """Record the table's new name."""
        if oid in self and self[oid] != name:
            self.former[self[oid]] = oid
        self[oid] = name

    def oid_of(self, name: TableId) -> int | None:
        """The identifier of the table that has this name, or else had it."""
        return next((oid for oid, now in self.items() if now == name), self.former.get(name))

    def name_in(self, oid: int, names: Container[TableId]) -> TableId | None:
        """Whichever of `names` the table has or had."""
        had = [name for name, former in self.former.items() if former == oid]
        return next((name for name in (self.get(oid), *had) if name in names), None)

    def dump(self) -> bytes:
        """The form stored in state."""
        names = {str(oid): name.to_json() for oid, name in self.items()}
        former = [{"oid": oid, **name.to_json()} for name, oid in self.former.items()]
        return json.dumps({"tables": names, "former": former}, sort_keys=True).encode()

    def save(self, context: DeltaSourceContext) -> None:
        """Store it in state, unless the same is stored there already."""
        stored = self.dump()
        if stored != context.get_state(STATE_KEY):
            context.put_state(STATE_KEY, stored)

    @classmethod
    def load(cls, stored: bytes | None) -> RelationIds:
        """The inverse of `dump`; empty when nothing is stored."""
        ids, value = cls(), json.loads(stored or b"{}")
        ids.update({int(oid): TableId.from_json(name) for oid, name in value.get("tables", {}).items()})
        ids.former = {TableId.from_json(entry): int(entry["oid"]) for entry in value.get("former", [])}
        return ids
