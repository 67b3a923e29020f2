"""What the plugin is: settings, identity, and the parts it makes."""

from __future__ import annotations

from typing import ClassVar, cast

from replicator_sdk import (
    DeltaSource,
    DeltaSourceContext,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    Offset,
    PluginConfig,
    SnapshotReader,
    TableAssessor,
    TableRegistry,
)
from replicator_source_sqlite.config import SqliteConfig
from replicator_source_sqlite.offset import SqliteOffset


class SqliteSource(DeltaSource):
    """Replicates tables of one SQLite database file on this machine."""

    name: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite, through triggers into a changelog table"
    config_type: ClassVar[type[PluginConfig]] = SqliteConfig
    offset_type: ClassVar[type[Offset]] = SqliteOffset

    @property
    def _settings(self) -> SqliteConfig:
        return cast("SqliteConfig", self.config)

    def identity(self) -> str:
        """An identity kept inside the database; the first call creates the replicator's tables there."""
        from replicator_source_sqlite.changelog import install
        from replicator_source_sqlite.connection import connect

        with connect(self._settings.path) as database:
            return install(database)

    def latest_offset(self) -> Offset:
        """After the last committed change, schema changes included."""
        from replicator_source_sqlite.changelog import install, offset_of
        from replicator_source_sqlite.connection import connect
        from replicator_source_sqlite.schema_change import synchronise

        with connect(self._settings.path) as database:
            install(database)
            return offset_of(database, synchronise(database, 0)[1])

    def create_table_registry(self) -> TableRegistry:
        """The catalogue."""
        from replicator_source_sqlite.catalogue import SqliteRegistry

        return SqliteRegistry(self._settings.path)

    def create_table_assessor(self) -> TableAssessor:
        """The judge."""
        from replicator_source_sqlite.assessment import SqliteAssessor

        return SqliteAssessor(self._settings.path)

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """The reader of the changelog."""
        from replicator_source_sqlite.reader import SqliteReader

        return SqliteReader(self._settings, definition, context, emitter)

    def create_snapshot_reader(
        self,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
    ) -> SnapshotReader | None:
        """The maker of copies."""
        from replicator_source_sqlite.snapshot import SqliteSnapshotReader

        return SqliteSnapshotReader(self._settings, definition.out_of_range)
