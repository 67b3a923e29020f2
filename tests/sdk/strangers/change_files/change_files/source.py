"""The source and its registry."""

from __future__ import annotations

from pathlib import Path

from change_files.files import last_number, tables
from change_files.reader import ChangeFilesReader
from change_files.snapshot import ChangeFilesSnapshots
from replicator_sdk import (
    DeltaSource,
    DeltaSourceContext,
    EventEmitter,
    EventReaderDefinition,
    FixedTables,
    NumberOffset,
    Offset,
    PluginConfig,
)
from replicator_sdk.discovery.source_health import SourceHealth


class ChangeFilesConfig(PluginConfig):
    """Settings.

    Attributes:
        folder: Where the files are.
        poll_interval_seconds: How long the reader waits when there is no new file.
    """

    folder: Path
    poll_interval_seconds: float = 0.05


class ChangeFilesSource(DeltaSource[ChangeFilesConfig]):
    """A folder with one file for each transaction."""

    name, title = "change-files", "A folder of NDJSON files, one for each transaction"
    config_type, offset_type = ChangeFilesConfig, NumberOffset

    def identity(self) -> str:
        """The folder."""
        return str(self.config.folder.resolve())

    def latest_offset(self) -> NumberOffset:
        """The newest file."""
        return NumberOffset(last_number(self.config.folder))

    def health(self, offset: Offset | None, *, namespace: str, name: str) -> SourceHealth:
        """How many files follow."""
        last = last_number(self.config.folder)
        return SourceHealth(waiting_changes=last - offset.number if isinstance(offset, NumberOffset) else None)

    def create_table_registry(self) -> FixedTables:
        """The tables after the newest file."""
        found = tables(self.config.folder, last_number(self.config.folder))
        return FixedTables(*(table.schema for table in found.values()))

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> ChangeFilesReader:
        """A reader of new files."""
        return ChangeFilesReader(self.config.folder, self.config.poll_interval_seconds, definition, emitter)

    def create_snapshot_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> ChangeFilesSnapshots:
        """What the files up to now make."""
        return ChangeFilesSnapshots(self.config.folder, definition.narrowed)
