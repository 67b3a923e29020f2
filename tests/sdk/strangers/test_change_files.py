"""The conformance kit on the stranger's source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from change_files import ChangeFilesConfig, ChangeFilesSource

from replicator_sdk import AlterKind, DDLEvent, DDLOperation, DMLOperation, NumberOffset, TableId, TableSchema
from replicator_sdk.schema import rename_table
from replicator_sdk.testing.capabilities import ALL_TYPES
from replicator_sdk.testing.kills.source_kills import SourceKills
from replicator_sdk.testing.simulate import Simulator
from replicator_sdk.testing.source_suite import Row, SourceConformance, SourceSystem, Step


def written(value: Any) -> Any:
    """A value as a file has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date | time | datetime) else value


class Writer(SourceSystem):
    """An application that keeps its tables and writes a file for each transaction."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.database, self.number = folder, Simulator({}), 0
        self.source = ChangeFilesSource(ChangeFilesConfig(folder=folder))

    def create_table(self, name: str, schema: TableSchema) -> TableId:
        schema = TableSchema(TableId("files", name), schema.columns, schema.primary_key)
        self.database.create(name, schema)
        self.write([{"table": name, "schema": schema.to_json()}])
        return schema.table

    def execute(self, steps: Sequence[tuple[Step, TableSchema]]) -> None:
        changes = (
            change
            for step, schema in steps
            for change in self.database.perform(step, schema.table, NumberOffset(self.number))
        )
        self.write([self.line(change) for change in changes])

    def rename_tables(self, renames: Mapping[TableId, TableId]) -> None:
        there, names = self.database.reference.tables, self.database.names
        moved = {table: there.pop(former) for former, table in renames.items()}
        for table, found in moved.items():
            found.schema = rename_table(found.schema, table)
        there |= moved
        names |= {name: renames.get(table, table) for name, table in names.items()}
        self.write([{"renames": {former.table: table.table for former, table in renames.items()}}])

    def write(self, lines: list[Any]) -> None:
        self.number += 1
        new = self.folder / "new"
        new.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        new.rename(self.folder / f"{self.number:08}.ndjson")

    def line(self, change: Any) -> dict[str, Any]:
        if not isinstance(change, DDLEvent):
            values = {
                "row": None if change.operation is DMLOperation.DELETE else change.row,
                "before": change.before,
            }
            found = {key: row and {name: written(v) for name, v in row.items()} for key, row in values.items()}
            return {"table": change.schema.table.table, "op": change.operation.name, **found}
        name = change.table.table
        if change.operation is DDLOperation.TRUNCATE_TABLE:
            return {"table": name, "truncate": True}
        assert change.schema is not None
        steps = [(a.kind, a.column, a.previous, a.default) for a in change.alters]
        renamed: dict[str, str] = {}
        for kind, new, old, _ in steps:  # names that are swapped take a column through several steps
            if kind is AlterKind.RENAME_COLUMN and new and old:
                renamed[new.name] = renamed.pop(old.name, old.name)
        defaults = {new.name: written(value) for kind, new, _, value in steps if kind is AlterKind.ADD_COLUMN and new}
        return {"table": name, "schema": change.schema.to_json(), "renamed": renamed, "defaults": defaults}

    def read_table(self, schema: TableSchema) -> list[Row]:
        return [dict(row) for row in self.database.reference.tables[schema.table].rows]

    def lose_history(self) -> None:
        for path in self.folder.glob("*.ndjson"):
            path.unlink()


class TestChangeFiles(SourceConformance):
    emits_renames = True
    supports_unchanged = False
    counts_unselected_tables = False  # its reader emits row by row: the emitter counts what is emitted
    random_histories = 5
    unsupported_types = ALL_TYPES & {"array", "record"}

    @pytest.fixture
    def system(self, tmp_path: Path) -> Writer:
        return Writer(tmp_path)


class TestChangeFilesIsKilled(SourceKills):
    kills_of_a_failpoint = 4
    random_kills = 2

    @pytest.fixture
    def system(self, tmp_path: Path) -> Writer:
        return Writer(tmp_path)
