"""The source: settings, identity, and its readers."""

from __future__ import annotations

from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from replicator_sdk import (
    DDLOperation,
    DeltaSource,
    DeltaSourceContext,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    Offset,
    PluginConfig,
    SnapshotReader,
    StartFrom,
    TableAssessor,
    TableId,
    TableRegistry,
)
from replicator_sdk.discovery.dataset import Dataset, path_dataset
from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth
from replicator_source_archive.config import ArchiveConfig
from replicator_source_archive.offset import ArchiveOffset

if TYPE_CHECKING:
    from replicator_source_archive.manifests import Manifests


class ArchiveSource(DeltaSource[ArchiveConfig]):
    """Replicates the tables of a change archive, which another pipeline has written or writes."""

    name: ClassVar[str] = "archive"
    title: ClassVar[str] = "Change archive of another pipeline"
    config_type: ClassVar[type[PluginConfig]] = ArchiveConfig
    offset_type: ClassVar[type[Offset]] = ArchiveOffset
    unseen_ddl: ClassVar[frozenset[DDLOperation]] = frozenset(
        {DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE}
    )
    starts_from: ClassVar[frozenset[Literal["offset", "time"]]] = frozenset({"offset", "time"})

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: the archive's place, and the table in it."""
        place = path_dataset(self.config.path)
        return Dataset(place.namespace, f"{place.name}/{super().dataset(table).name}")

    def identity(self) -> str:
        """The pipeline that writes the archive."""
        return f"archive:{self._manifests.owner()}"

    def latest_offset(self) -> Offset:
        """The offset after the last manifest."""
        return self._manifests.end()

    def find_start(self, start: StartFrom, *, namespace: str, name: str) -> Offset:  # noqa: ARG002 - part of the contract
        """The entry of a manifest, or before the first change committed at a time or later; see `ChosenStart.find`."""
        from replicator_source_archive.chosen_start import ChosenStart

        self._manifests.owner()
        return ChosenStart(self._manifests).find(start)

    def health(self, offset: Offset | None, *, namespace: str, name: str) -> SourceHealth | None:
        """Whether the place answers, what waits after `offset`, for how long it is there, and how late the archive itself is."""
        with closing(self.create_health_probe(namespace=namespace, name=name)) as probe:
            return probe.ask(offset)

    def create_health_probe(self, *, namespace: str, name: str) -> HealthProbe:  # noqa: ARG002 - part of the contract
        """The same; it keeps what it has read."""
        from replicator_source_archive.health import ArchiveHealthProbe

        return ArchiveHealthProbe(self._manifests)

    def create_table_registry(self) -> TableRegistry:
        """Tables at the archive's end."""
        from replicator_source_archive.catalogue import ArchiveRegistry

        return ArchiveRegistry(self._manifests)

    def create_table_assessor(self) -> TableAssessor:
        """The assessor of the archive and its tables."""
        from replicator_source_archive.catalogue import ArchiveAssessor

        return ArchiveAssessor(self._manifests, self.config)

    def check_log(self, offset: Offset, *, namespace: str, name: str) -> None:  # noqa: ARG002 - part of the contract
        """Check that the archive is the one of `offset` and has what follows it."""
        assert isinstance(offset, ArchiveOffset)
        self._manifests.check_reach(offset)

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """The reader of the manifests."""
        from replicator_source_archive.reader import ArchiveReader

        return ArchiveReader(self._manifests, self.config, definition, context, emitter)

    def create_snapshot_reader(
        self,
        definition: EventReaderDefinition,
        context: DeltaSourceContext,  # noqa: ARG002 - part of the contract
    ) -> SnapshotReader | None:
        """The reader of snapshots."""
        from replicator_source_archive.snapshots.snapshot import ArchiveSnapshotReader

        return ArchiveSnapshotReader(self._manifests, self.config, definition)

    @cached_property
    def _manifests(self) -> Manifests:
        from replicator_source_archive.folder import ArchiveFolder
        from replicator_source_archive.manifests import Manifests

        return Manifests(ArchiveFolder(self.config.path))
