"""Names of the captured tables by object identifier (oid), over time: a renamed table is still the same table."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.schema import TableId, TableSchema
from replicator_source_postgres.offset import PostgresOffset

STATE_KEY = "postgres-tables"
_STATE_LOCK = threading.Lock()
"""Snapshots begin in threads of their own while the reader's thread stores renames."""


@dataclass(frozen=True, slots=True)
class EmittedNames:
    """Tables that were renamed, or that are gone, as it was emitted: in a transaction of its own.

    Attributes:
        base: The offset it was emitted after.
        end: The offset after it.
        names: By identifier, the name before and the one after; None when the table is gone.
    """

    base: PostgresOffset
    end: PostgresOffset
    names: dict[int, tuple[TableId, TableId | None]]

    def to_json(self) -> dict[str, Any]:
        """The form stored in state."""
        names = {str(oid): [old.to_json(), new and new.to_json()] for oid, (old, new) in self.names.items()}
        return {"base": self.base.to_json(), "end": self.end.to_json(), "names": names}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> EmittedNames:
        """The inverse of `to_json`."""
        names = {
            int(oid): (TableId.from_json(old), new and TableId.from_json(new))
            for oid, (old, new) in value["names"].items()
        }
        return cls(PostgresOffset.from_json(value["base"]), PostgresOffset.from_json(value["end"]), names)


class RelationIds(dict[int, TableId]):
    """Identifier → the name that was emitted last, and what was emitted of names since the committed offset.

    What is stored may be newer than the offset a reader starts from, as after a crash.

    Attributes:
        emitted: Renames and drops that a replay emits again, in order.
        lost: Names whose table was copied under another name before its rename was emitted, each with that name: the copy
            under the former name ends. Only looked at for copies whose schema does not say of which table they are.
        former: Former names as earlier versions stored them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.emitted: list[EmittedNames] = []
        self.lost: dict[TableId, TableId] = {}
        self.former: dict[TableId, int] = {}

    def oid_of(self, name: TableId) -> int | None:
        """The identifier of the table that has this name, or else had it last."""
        return next((oid for oid, now in self.items() if now == name), self._former_oid(name))

    def _former_oid(self, name: TableId) -> int | None:
        had = (oid for one in reversed(self.emitted) for oid, (before, _) in one.names.items() if before == name)
        return next(had, self.former.get(name))

    def names_at(self, offset: PostgresOffset) -> dict[int, TableId]:
        """The names at an offset that is not before the committed one."""
        names = dict(self)
        for one in reversed(self.emitted):
            if offset < one.end:
                names.update({oid: before for oid, (before, _) in one.names.items()})
        return names

    def identify(self, schemas: Iterable[TableSchema], offset: PostgresOffset) -> dict[TableId, int]:
        """The identifiers of tables that the runtime knows by these names at `offset`; unknown names are left out.

        A copy says of which table it is; a name does not, since another table may have it by now. Of two copies of one table
        the one is found whose name was copied or emitted last; the other one ends. Copies of earlier versions are found by name.
        """
        copies: defaultdict[int, list[TableId]] = defaultdict(list)
        names, at = [], self.names_at(offset)
        for schema in schemas:
            if schema.source_id:
                copies[int(schema.source_id)].append(schema.table)
            else:
                names.append(schema.table)
        found = {}
        for oid, tables in copies.items():
            has = next((name for name in (self.get(oid), at.get(oid)) if name in tables), tables[0])
            found[has] = oid
        return found | {name: oid for name, oid in self.resolve(names, offset).items() if oid not in copies}

    def resolve(self, names: Iterable[TableId], offset: PostgresOffset) -> dict[TableId, int]:
        """The identifiers of tables that the runtime knows by these names at `offset`; unknown names are left out.

        A table that was copied after `offset` may have its later name; then it is that table, also where another one had the
        name at `offset`.
        """
        at = {name: oid for oid, name in self.names_at(offset).items()}
        last = {name: oid for oid, name in self.items()}
        given = list(names)
        found = {name: at[name] for name in given if name in at}
        for name in given:
            if name not in found and name in last:
                holder = next((other for other, oid in found.items() if oid == last[name]), None)
                if holder is not None:
                    del found[holder]
                    if holder in last:
                        found[holder] = last[holder]
                found[name] = last[name]
        for name in given:
            oid = None if name in found or name in self.lost else self._former_oid(name)
            if oid is not None and oid not in found.values():
                found[name] = oid
        return found

    def captured(self, oid: int, name: TableId) -> None:
        """Learn the identifier of a table that is captured; one whose name or identifier is known learns it from its copy."""
        if oid not in self and name not in self.lost and self.oid_of(name) is None:
            self[oid] = name

    def copied(self, oid: int, name: TableId) -> None:
        """The table is about to be copied under this name."""
        before = self.get(oid)
        if before not in {None, name}:
            assert before is not None
            self.lost[before] = name
        for other in [other for other, known in self.items() if known == name and other != oid]:
            del self[other]
        for one in self.emitted:
            for other in [other for other, (was, _) in one.names.items() if was == name and other != oid]:
                del one.names[other]
        self.lost.pop(name, None)
        self.former.pop(name, None)
        self[oid] = name

    def emit(self, names: EmittedNames, committed: PostgresOffset | None) -> None:
        """Learn names that are about to be emitted; no run starts before `committed`."""
        if committed is not None:
            self.emitted = [one for one in self.emitted if committed < one.end]
        self.emitted.append(names)
        for oid, (_, name) in names.names.items():
            if name is None:
                self.pop(oid, None)
            else:
                self[oid] = name

    def dump(self) -> bytes:
        """The form stored in state."""
        value = {
            "tables": {str(oid): name.to_json() for oid, name in self.items()},
            "emitted": [one.to_json() for one in self.emitted],
            "lost": [[name.to_json(), now.to_json()] for name, now in self.lost.items()],
            "former": [{"oid": oid, **name.to_json()} for name, oid in self.former.items()],
        }
        return json.dumps(value, sort_keys=True).encode()

    @classmethod
    def load(cls, stored: bytes | None) -> RelationIds:
        """The inverse of `dump`; empty when nothing is stored."""
        ids, value = cls(), json.loads(stored or b"{}")
        ids.update({int(oid): TableId.from_json(name) for oid, name in value.get("tables", {}).items()})
        ids.emitted = [EmittedNames.from_json(one) for one in value.get("emitted", [])]
        ids.lost = {TableId.from_json(name): TableId.from_json(now) for name, now in value.get("lost", [])}
        ids.former = {TableId.from_json(entry): int(entry["oid"]) for entry in value.get("former", [])}
        return ids

    @classmethod
    def change(cls, context: DeltaSourceContext, change: Callable[[RelationIds], None]) -> RelationIds:
        """Change what is stored; durable when this returns, which is what is stored then. Safe from any thread."""
        with _STATE_LOCK:
            stored = context.get_state(STATE_KEY)
            ids = cls.load(stored)
            change(ids)
            if (changed := ids.dump()) != stored:
                context.put_state(STATE_KEY, changed)
        return ids
