"""Source `journal`: a file of JSON lines, one transaction a line, appended to for ever.

A line is a list of `[operation, row]` or `["update", row, key before]`. The file is the whole history, so that there is no
snapshot: the reader begins at its start.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from replicator_sdk import (
    Assessment,
    Column,
    DeltaSource,
    DeltaSourceContext,
    DMLEvent,
    DMLOperation,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    Offset,
    PluginConfig,
    TableAssessment,
    TableAssessor,
    TableId,
    TableRegistry,
    TableSchema,
    TableSummary,
)
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import NeedsUserError

STARS = TableId("journal", "stars")
SCHEMA = TableSchema(STARS, (Column("id", INT64, nullable=False), Column("name", STRING)), ("id",))


class JournalConfig(PluginConfig):
    """The journal's path; the word is only there to be kept secret."""

    path: Path
    password: str = ""


class JournalOffset(Offset):
    """How many bytes of the journal are read."""

    __slots__ = ("bytes_read",)

    def __init__(self, bytes_read: int) -> None:
        self.bytes_read = bytes_read

    def fields(self) -> Mapping[str, bytes]:
        return {"bytes": str(self.bytes_read).encode()}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> JournalOffset:
        return cls(int(fields["bytes"]))

    def __lt__(self, other: Any) -> bool:
        return self.bytes_read < cast("JournalOffset", other).bytes_read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JournalOffset) and self.bytes_read == other.bytes_read

    def __hash__(self) -> int:
        return hash(self.bytes_read)

    def __str__(self) -> str:
        return f"byte {self.bytes_read}"


class JournalReader(EventReader):
    """Follows the file."""

    def __init__(self, path: Path, emitter: EventEmitter) -> None:
        self._path = path
        self._emitter = emitter
        self._closed = threading.Event()
        self._offset = JournalOffset(0)

    def initialize(self, offset: Offset | None) -> Offset:
        self._offset = JournalOffset(0) if offset is None else cast("JournalOffset", offset)
        return self._offset

    def capture(self, tables: object) -> None:
        pass

    def run(self) -> None:
        with self._path.open("rb") as journal:
            journal.seek(self._offset.bytes_read)
            while not self._closed.is_set():
                line = journal.readline()
                if line.endswith(b"\n"):
                    self._emit(json.loads(line), JournalOffset(self._offset.bytes_read + len(line)))
                else:
                    journal.seek(self._offset.bytes_read)
                    self._closed.wait(0.05)

    def close(self) -> None:
        self._closed.set()

    def _emit(self, transaction: list[list[Any]], after: JournalOffset) -> None:
        for operation, row, *before in transaction:
            kind = DMLOperation[operation.upper()]
            old = row if kind is DMLOperation.DELETE else (before[0] if before else None)
            self._emitter.emit(DMLEvent(self._offset, kind, STARS, row, before=old))
        self._emitter.emit(DMLEvent(after, DMLOperation.COMMIT))
        self._offset = after


class JournalRegistry(TableRegistry):
    """One table."""

    def list_tables(self) -> list[TableSummary]:
        return [TableSummary(STARS, len(SCHEMA.columns))]

    def describe_table(self, table: TableId) -> TableSchema:
        return SCHEMA


class Contented(TableAssessor):
    """Finds nothing wrong."""

    def assess(self) -> Assessment:
        return Assessment()

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        return TableAssessment(schema.table)


class JournalSource(DeltaSource):
    """Describes the journal."""

    name = "journal"
    title = "A journal of JSON lines"
    config_type = JournalConfig
    offset_type = JournalOffset

    @property
    def _path(self) -> Path:
        return cast("JournalConfig", self.config).path

    def identity(self) -> str:
        if not self._path.exists():
            raise NeedsUserError(f"there is no journal {self._path}", code="JRN-0001", hint="write one")
        return "the journal"

    def latest_offset(self) -> Offset:
        return JournalOffset(self._path.stat().st_size)

    def create_table_registry(self) -> TableRegistry:
        return JournalRegistry()

    def create_table_assessor(self) -> TableAssessor:
        return Contented()

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        return JournalReader(self._path, emitter)
