"""Reads new files and emits their lines, one by one."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from change_files.files import Line, is_structure, last_number, lines, origins, path_of, typed, typed_row
from replicator_sdk import (
    Alter,
    DDLEvent,
    DDLOperation,
    DMLEvent,
    DMLOperation,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    NumberOffset,
    Offset,
    TableSchema,
)
from replicator_sdk.authoring.schema_diff import alter_steps
from replicator_sdk.errors import HistoryLostError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import rename_table

register("change_files.commit.before", "change_files.commit.after")


class ChangeFilesReader(EventReader):
    """Emits each file as one transaction."""

    def __init__(self, folder: Path, pause: float, definition: EventReaderDefinition, emitter: EventEmitter) -> None:
        self._folder, self._pause, self._emitter = folder, pause, emitter
        self._schemas = {table.table: schema for table, schema in definition.tables.items()}
        self._narrowed = {table.table for table in definition.narrowed}
        self._closed = threading.Event()
        self._offset = NumberOffset(0)

    def initialize(self, offset: Offset | None) -> Offset:
        last = last_number(self._folder)
        self._offset = offset if isinstance(offset, NumberOffset) else NumberOffset(last)
        missing = [n for n in (1, self._offset.number) if n and last and not path_of(self._folder, n).exists()]
        if missing or self._offset.number > last:
            raise HistoryLostError(
                f"the folder {self._folder} ends before transaction {self._offset.number}",
                code="CHF-0001",
                hint="put its files back, or take a new snapshot under another pipeline name",
            )
        return self._offset

    def run(self) -> None:
        while not self._closed.is_set():
            number = self._offset.number + 1
            if path_of(self._folder, number).exists():
                self._emit_file(lines(self._folder, number), NumberOffset(number))
            else:
                self._closed.wait(self._pause)

    def close(self) -> None:
        self._closed.set()

    def _emit_file(self, found: list[Line], end: NumberOffset) -> None:
        for line in found:
            if "renames" in line:
                self._emit_renames(line["renames"])
            elif line["table"] in self._schemas:
                self._emit_structure(line) if is_structure(line) else self._emit_row(line)
        failpoint("change_files.commit.before")
        self._offset = end
        self._emitter.emit(DMLEvent(end, DMLOperation.COMMIT))
        failpoint("change_files.commit.after")

    def _emit_row(self, line: Line) -> None:
        schema = self._schemas[line["table"]]
        before = typed_row(schema, line["before"]) if line.get("before") else None
        row = typed_row(schema, line.get("row") or {})
        self._emitter.emit(DMLEvent(self._offset, DMLOperation[line["op"]], schema.table, row, before))

    def _emit_renames(self, renames: dict[str, str]) -> None:
        """Tables got other names at once: an event for each, with nothing between them."""
        moved = {former: self._schemas.pop(former) for former in renames if former in self._schemas}
        self._narrowed = {renames.get(name, name) for name in self._narrowed}
        for former, old in moved.items():
            new = rename_table(old, replace(old.table, table=renames[former]))
            self._schemas[renames[former]] = new
            self._emitter.emit(DDLEvent(self._offset, DDLOperation.RENAME_TABLE, new.table, new, old.table))

    def _emit_structure(self, line: Line) -> None:
        name = line["table"]
        old = self._schemas[name]
        if "drop" in line:
            del self._schemas[name]
            self._emitter.emit(DDLEvent(self._offset, DDLOperation.DROP_TABLE, old.table))
        elif "truncate" in line:
            self._emitter.emit(DDLEvent(self._offset, DDLOperation.TRUNCATE_TABLE, old.table, old))
        else:
            new, steps = self._steps(line, old)
            self._schemas[name] = new
            if steps:
                self._emitter.emit(DDLEvent(self._offset, DDLOperation.ALTER_TABLE, old.table, new, alters=steps))

    def _steps(self, line: Line, old: TableSchema) -> tuple[TableSchema, tuple[Alter, ...]]:
        new, names = TableSchema.from_json(line["schema"]), origins(line, old)
        if line["table"] in self._narrowed:
            new = new.select(names)
        defaults: dict[str, Any] = {n: typed(new[n], v) for n, v in line.get("defaults", {}).items() if n in new}
        return new, alter_steps(old, new, names, defaults=defaults)
