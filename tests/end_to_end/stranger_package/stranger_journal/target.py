"""Target `ledger`: one JSON file for each table, rewritten at every flush."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replicator_sdk import (
    DDLEvent,
    DDLOperation,
    DeltaTarget,
    DeltaTargetContext,
    DMLEvent,
    DMLOperation,
    EventConsumer,
    PluginConfig,
    TableAssessor,
    TableId,
)
from stranger_journal.source import Contented


class LedgerConfig(PluginConfig):
    """The folder of the files."""

    path: Path


class LedgerConsumer(EventConsumer):
    """Holds the tables in memory between flushes; a row twice is a row once, since rows are kept by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[TableId, dict[str, Any]] = {}

    def apply_ddl(self, event: DDLEvent) -> None:
        if event.operation is not DDLOperation.CREATE_TABLE or event.schema is None:
            raise ValueError(f"a ledger cannot {event.operation}")
        self._rows(event.table)
        self.flush()

    def apply_dml(self, event: DMLEvent) -> None:
        if event.operation is DMLOperation.COMMIT or event.table is None:
            return
        rows = self._rows(event.table)
        if event.before is not None:
            rows.pop(str(event.before["id"]), None)
        if event.operation is not DMLOperation.DELETE:
            rows[str(event.row["id"])] = dict(event.row)

    def flush(self) -> None:
        for table, rows in self._tables.items():
            file = self._file(table)
            new = file.with_suffix(".new")
            new.write_text(json.dumps(rows), "utf-8")
            new.replace(file)

    def stop(self) -> None:
        self._tables.clear()

    def _rows(self, table: TableId) -> dict[str, Any]:
        if table not in self._tables:
            file = self._file(table)
            self._folder.mkdir(parents=True, exist_ok=True)
            self._tables[table] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        return self._tables[table]

    def _file(self, table: TableId) -> Path:
        return self._folder / f"{table.table}.json"


class LedgerTarget(DeltaTarget[LedgerConfig]):
    """Describes the ledger."""

    name = "ledger"
    title = "A ledger of JSON files"
    config_type = LedgerConfig

    def create_table_assessor(self) -> TableAssessor:
        return Contented()

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        return LedgerConsumer(self.config.path)
