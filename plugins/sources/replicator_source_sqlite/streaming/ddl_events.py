"""Converts logged schema changes to the events that the reader emits."""
# ruff: noqa: S608 - only numbered columns are put into statements

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from replicator_sdk import (
    Alter,
    DDLEvent,
    DDLOperation,
    Offset,
    OutOfRange,
    TableId,
    TableSchema,
)
from replicator_sdk.authoring.schema_diff import alter_steps
from replicator_sdk.errors import BugError
from replicator_source_sqlite.capture.versions import Version
from replicator_source_sqlite.offset import SqliteOffset
from replicator_source_sqlite.streaming.selection import Selection
from replicator_source_sqlite.types.decode import Decoder


@dataclass
class DDLEvents:
    """Converts logged schema changes to events of the selected tables and columns, in log order.

    Attributes:
        versions: Every version that a change of the log has; the reader keeps them so.
        selection: The selected tables and columns; follows renames.
        out_of_range: The policy for default values.
    """

    versions: Mapping[int, Version]
    selection: Selection
    out_of_range: OutOfRange

    def event(
        self, database: sqlite3.Connection, number: int, offset: Offset, ordinal: int
    ) -> tuple[DDLEvent | None, bool]:
        """The event for the change `number`, None when it concerns no selected table or column; and whether the next change
        was made together with it.
        """
        version, at, text = database.execute(
            "SELECT version, at, c0 FROM _replicator_changes WHERE id = ?", (number,)
        ).fetchone()
        facts = json.loads(text)
        return self._event(database, number, (version, at, facts), (offset, ordinal)), facts.get("together", False)

    def _event(
        self,
        database: sqlite3.Connection,
        number: int,
        change: tuple[int, int, dict[str, Any]],
        position: tuple[Offset, int],
    ) -> DDLEvent | None:
        (version, at, facts), (offset, ordinal) = change, position
        before, after = self.versions[facts["previous"]], self.versions[version]
        old = self.selection.schema(before)
        if old is None:
            return None
        event = DDLEvent(
            offset,
            DDLOperation(facts["operation"]),
            old.table,
            ordinal=ordinal,
            needs_snapshot=facts.get("needsSnapshot", False),
            source_timestamp=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at),
        )
        if event.operation is DDLOperation.DROP_TABLE:
            return event
        self.selection.follow(before, after, facts["origin"])
        new = self.selection.schema(after)
        if new is None:
            raise BugError("a schema change lost its table", code="RPL-3511", table=str(old.table))
        steps = alters(old, new, facts["origin"], self._defaults(database, number, facts["added"], new))
        if event.operation is DDLOperation.RENAME_TABLE:
            return replace(event, table=new.table, prev_table=old.table, schema=new, alters=steps)
        return replace(event, schema=new, alters=steps) if steps or event.needs_snapshot else None

    def late_alters(self, known: Mapping[TableId, TableSchema], change: int) -> Iterator[DDLEvent]:
        """The events that lead from the schemas in `known` to those that the log has after `change`.

        They differ when a table was altered after it was described and before the first start.
        """
        versions = {v.schema.table: v for v in self.versions.values() if v.since <= change}
        for table, old in known.items():
            new = self.selection.schema(versions[table]) if table in versions else None
            if new is None or new.struct == old.struct:
                continue
            steps = alters(old, new, {name: name for name in new.names if name in old}, {})
            operation = DDLOperation.ALTER_TABLE
            yield DDLEvent(SqliteOffset(change), operation, table, new, alters=steps, needs_snapshot=True)

    def _defaults(
        self, database: sqlite3.Connection, number: int, names: list[str], schema: TableSchema
    ) -> dict[str, Any]:
        """The values of existing rows in the added columns `names`."""
        if not names:
            return {}
        places = ", ".join(f"c{i + 1}" for i in range(len(names)))
        values = database.execute(f"SELECT {places} FROM _replicator_changes WHERE id = ?", (number,)).fetchone()
        decoder = Decoder(schema, self.out_of_range)
        named = zip(names, values, strict=True)
        return {name: decoder.column(schema[name], [value])[0].as_py() for name, value in named if name in schema}


def alters(old: TableSchema, new: TableSchema, origin: dict[str, str], defaults: dict[str, Any]) -> tuple[Alter, ...]:
    """The steps from `old` to `new`.

    Args:
        old: The schema before.
        new: The schema after.
        origin: New column name → old column name, for columns that existed.
        defaults: Value of existing rows in added columns, by name.
    """
    in_order = {name: origin[name] for name in new.names if name in origin}
    return alter_steps(old, new, in_order, defaults=defaults, compare_source_types=False)
