"""The source: settings, identity, and its readers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from replicator_sdk import (
    DeltaSource,
    DeltaSourceContext,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    Offset,
    PluginConfig,
    SnapshotReader,
    SourceCleanUp,
    StartFrom,
    StoredState,
    TableAssessor,
    TableId,
    TableRegistry,
)
from replicator_sdk.discovery.dataset import Dataset, path_dataset
from replicator_sdk.discovery.source_health import SourceHealth
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.offset import SqliteOffset

if TYPE_CHECKING:
    import pyarrow as pa

    from replicator_source_sqlite.capture.ddl_detection import KnownSchema


class SqliteSource(DeltaSource[SqliteConfig]):
    """Replicates tables of one SQLite database file on this machine."""

    name: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite, through triggers into a changelog table"
    config_type: ClassVar[type[PluginConfig]] = SqliteConfig
    offset_type: ClassVar[type[Offset]] = SqliteOffset
    marks_refused: ClassVar[bool] = True
    filters_snapshots: ClassVar[bool] = True
    starts_from: ClassVar[frozenset[Literal["offset", "time"]]] = frozenset({"offset", "time"})

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: the database's file, and the table in it."""
        file = path_dataset(str(self.config.path))
        return Dataset(file.namespace, f"{file.name}/{table.table}")

    def identity(self) -> str:
        """An identity stored inside the database; the first call creates the replicator's tables there."""
        from replicator_source_sqlite.capture.changelog import install
        from replicator_source_sqlite.connection import connect

        with connect(self.config.path) as database:
            return install(database)

    def latest_offset(self) -> Offset:
        """The offset after the last committed change, schema changes included."""
        from replicator_source_sqlite.capture.changelog import install, offset_of
        from replicator_source_sqlite.capture.ddl_detection import synchronise
        from replicator_source_sqlite.connection import connect

        with connect(self.config.path) as database:
            install(database)
            return offset_of(database, synchronise(database, 0)[1])

    def health(self, offset: Offset | None, *, namespace: str, name: str) -> SourceHealth:  # noqa: ARG002 - part of the contract
        """How many changes the log has after `offset`."""
        from replicator_source_sqlite.capture.changelog import last_change
        from replicator_source_sqlite.connection import connect

        with connect(self.config.path, read_only=True) as database:
            last = last_change(database)
        return SourceHealth(waiting_changes=max(0, last - offset.change) if isinstance(offset, SqliteOffset) else None)

    def find_start(self, start: StartFrom, *, namespace: str, name: str) -> Offset:  # noqa: ARG002 - part of the contract
        """The change that `start` names, or the last one before its time."""
        from replicator_source_sqlite.capture.chosen_start import find_start
        from replicator_source_sqlite.connection import connect

        with connect(self.config.path, read_only=True) as database:
            return find_start(database, start)

    def create_table_registry(self) -> TableRegistry:
        """Tables from the database's catalogue."""
        from replicator_source_sqlite.catalogue import SqliteRegistry

        return SqliteRegistry(self.config.path)

    def create_table_assessor(self) -> TableAssessor:
        """The assessor of the database and its tables."""
        from replicator_source_sqlite.assessment import SqliteAssessor

        return SqliteAssessor(self.config.path)

    def check_log(self, offset: Offset, *, namespace: str, name: str) -> None:  # noqa: ARG002 - part of the contract
        """Check that the changelog is the one of `offset` and has all changes after it."""
        from replicator_source_sqlite.capture.changelog import check_reach
        from replicator_source_sqlite.connection import connect

        assert isinstance(offset, SqliteOffset)
        with connect(self.config.path, read_only=True) as database:
            check_reach(database, offset)

    def create_clean_up(self, *, namespace: str, name: str, stored: Sequence[StoredState]) -> SourceCleanUp | None:
        """Removes triggers and changelog when no other replicator reads it."""
        from replicator_source_sqlite.capture.clean_up import SqliteCleanUp

        return SqliteCleanUp(self.config.path, f"{namespace}/{name}", stored)

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """The reader of the changelog."""
        from replicator_source_sqlite.streaming.reader import SqliteReader

        return SqliteReader(self.config, definition, context, emitter)

    def create_snapshot_reader(
        self,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
    ) -> SnapshotReader | None:
        """The reader of snapshots."""
        from replicator_source_sqlite.snapshots.snapshot import SqliteSnapshotReader

        return SqliteSnapshotReader(self.config, definition, self._known_schema)

    def sample_rows(self, definition: EventReaderDefinition, table: TableId, rows: int) -> pa.RecordBatch | None:
        """The first rows that SQLite finds."""
        from replicator_source_sqlite.snapshots.sample import sample_rows

        return sample_rows(self.config, definition, table, rows)

    @cached_property
    def _known_schema(self) -> KnownSchema:
        from replicator_source_sqlite.capture.ddl_detection import KnownSchema

        return KnownSchema(self.config.path)
