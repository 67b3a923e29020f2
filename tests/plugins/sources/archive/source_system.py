"""An archive for the conformance kit, written as a pipeline writes it, and read without the source."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from replicator_sdk import DDLEvent, NumberOffset, Position, TableId, TableSchema
from replicator_sdk.change_archive.ddl_json import event_json, event_values
from replicator_sdk.change_archive.names import OWNER, manifest_of
from replicator_sdk.change_archive.rows import parquet, rows_of_changes
from replicator_sdk.datatype import STRING
from replicator_sdk.schema import Column, rename_table
from replicator_sdk.testing.histories.batches import to_batch
from replicator_sdk.testing.histories.history import Step
from replicator_sdk.testing.histories.reference import Change
from replicator_sdk.testing.histories.values import Row
from replicator_sdk.testing.simulate import Simulator
from replicator_sdk.testing.source_suite import SourceSystem
from replicator_source_archive.config import ArchiveConfig
from replicator_source_archive.plugin import ArchiveSource
from tests.runtime.engine.archive.rebuilt import rebuilt


class ArchiveSystem(SourceSystem):
    """A folder in which each transaction adds a manifest.

    Attributes:
        number: Of the manifest written last.
    """

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.number = self._sequence = 0
        self._simulators: dict[TableId, Simulator] = {}
        path.mkdir()
        (path / OWNER).write_text(json.dumps({"version": 1, "namespace": "default", "name": "shop"}))
        (path / "_manifests").mkdir()
        self.source = ArchiveSource(ArchiveConfig(path=str(path), poll_interval_seconds=0.01, **settings))

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        """A table whose copy has no rows."""
        table = TableId("main", name)
        columns = tuple(Column(c.name, c.type, c.nullable, str(c.type)) for c in schema.columns)
        made = TableSchema(table, columns, schema.primary_key)
        self._simulators[table] = Simulator({name: made}, full_before=True)
        self.add({"kind": "copy", "schema": made.to_json(), "files": [], "rows": 0, "table": table.to_json()})
        return table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        """The transaction's changes in one manifest."""
        changes: list[Change] = []
        for step, schema in steps:
            changes += self._simulators[schema.table].perform(step, schema.table, NumberOffset(0))
        self.add(*(entry for _, part in groupby(changes, _alike) for entry in self._entries(list(part))))

    def rename_tables(self, renames: Mapping[TableId, TableId]) -> None:
        """All at once, as one entry."""
        moved, entries = {}, []
        for former, table in renames.items():
            simulator = self._simulators.pop(former)
            [name] = simulator.names
            schema = rename_table(simulator.table(name).schema, table)
            moved[table] = Simulator({name: schema}, full_before=True)
            moved[table].table(name).rows.extend(simulator.table(name).rows)
            entries.append({"former": former.to_json(), "schema": schema.to_json()})
        self._simulators |= moved
        self.add({"kind": "rename", "table": entries[0]["schema"]["table"], "renames": entries, "position": "0"})

    def _entries(self, changes: Sequence[Change]) -> list[Mapping[str, Any]]:
        if isinstance(changes[0], DDLEvent):
            return [self._ddl(change) for change in changes if isinstance(change, DDLEvent)]
        rows = [change for change in changes if not isinstance(change, DDLEvent)]
        schema = rows[0].schema
        batch = to_batch(rows, range(len(rows)), self._sequence)
        file = f"changes/{self._sequence}.parquet"
        (self.path / "changes").mkdir(exist_ok=True)
        (self.path / file).write_bytes(parquet(schema, [rows_of_changes(batch, "0")]))
        first, self._sequence = self._sequence + 1, self._sequence + len(rows)
        facts = {"kind": "changes", "schema": schema.to_json(), "rows": len(rows), "files": [file], "first": first}
        more = {"last": self._sequence, "overlap": False, "dropsLostUpdates": False, "unordered": False}
        return [{**facts, **more, "committedAt": time.time_ns() // 1000, "table": schema.table.to_json()}]

    def _ddl(self, event: DDLEvent) -> Mapping[str, Any]:
        placed = replace(event, position=Position(NumberOffset(0)))
        values = base64.b64encode(event_values(placed)).decode()
        return {"kind": "ddl", "event": event_json(placed), "values": values, "table": event.table.to_json()}

    def add(self, *entries: Mapping[str, Any]) -> None:
        """Write the next manifest."""
        self.number += 1
        known = {"version": 1, "release": "0.1.0", "number": self.number, "generation": 1, "epoch": 1, "ends": []}
        content = json.dumps({**known, "at": time.time(), "entries": entries})
        half = self.path / "half"
        half.write_text(content)
        half.rename(self.path / manifest_of(self.number))

    def read_table(self, schema: TableSchema) -> list[Row]:
        """By the manifests and pyarrow."""
        rows = rebuilt(self.path)[schema.table.table].rows
        assert rows is not None
        texts = {column.name for column in schema.columns if column.type == STRING}
        return [{name: _text(row[name]) if name in texts else row[name] for name in schema.names} for row in rows]

    def rest(self) -> None:
        """The source emits no offset by itself."""

    def lose_history(self) -> None:
        """As if all were older than `keepDays`."""
        for path in sorted((self.path / "_manifests").iterdir())[:-1]:
            path.unlink()


def _text(value: Any) -> Any:
    """What a number is in a column that became text."""
    return str(value) if isinstance(value, int) else value


def _alike(change: Change) -> Any:
    return (True, change.table) if isinstance(change, DDLEvent) else (False, change.schema.table, change.schema)
