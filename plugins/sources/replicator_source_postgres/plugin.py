"""The source: settings, identity, and its readers."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import Configurer, DeltaSourceContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.clean_up import SourceCleanUp, StoredState
from replicator_sdk.discovery.dataset import Dataset
from replicator_sdk.discovery.source_health import SourceHealth
from replicator_sdk.discovery.table_registry import TableRegistry
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_sdk.snapshot import SnapshotReader
from replicator_sdk.source import DeltaSource, EventEmitter, EventReader, EventReaderDefinition, StartFrom
from replicator_source_postgres.config import PostgresConfig
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.replication.identify_system import latest_offset, source_identity

if TYPE_CHECKING:
    import pyarrow as pa


class PostgresSource(DeltaSource[PostgresConfig]):
    """PostgreSQL 13 to 18 through logical replication; see `DeltaSource`."""

    name: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL 13 to 18, logical replication (pgoutput)"
    config_type: ClassVar[type[PluginConfig]] = PostgresConfig
    offset_type: ClassVar[type[Offset]] = PostgresOffset
    marks_refused: ClassVar[bool] = True
    filters_snapshots: ClassVar[bool] = True
    starts_from: ClassVar[frozenset[Literal["offset", "time"]]] = frozenset({"offset", "time"})

    def configure(self, configurer: Configurer) -> None:
        """Check that the certificate file exists; the settings model checks the rest."""
        root = self.config.ssl_root_cert
        if root is not None and not root.is_file():
            configurer.add_failure(
                f"the file {str(root)!r} does not exist",
                path="sslRootCert",
                hint="give a file with the server's certificate authority in PEM form",
            )

    def endpoint(self, application: str = "replicator") -> Endpoint:
        """Where and as whom to connect."""
        return Endpoint(self.config, application)

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: host and port, and database, schema and table. A Unix socket is this host's."""
        host = "localhost" if self.config.host.startswith("/") else self.config.host
        name = f"{table.database}.{table.schema}.{table.table}"
        return Dataset(f"postgres://{host}:{self.config.port}", name)

    def identity(self) -> str:
        """The cluster's system identifier and the database's object identifier."""
        return source_identity(self.endpoint())

    def latest_offset(self) -> PostgresOffset:
        """The end of the log; the reader reaches it without further changes at the source."""
        return latest_offset(self.endpoint())

    def health(self, offset: Offset | None, *, namespace: str, name: str) -> SourceHealth:
        """The server's clock, the log after `offset`, and what the slot keeps."""
        from replicator_source_postgres.replication.source_health import source_health

        assert offset is None or isinstance(offset, PostgresOffset)
        return source_health(self.endpoint(), self.config.slot or derived_name(namespace, name), offset)

    def find_start(self, start: StartFrom, *, namespace: str, name: str) -> Offset:
        """The position in the slot of the settings, or before the first transaction in it that was committed at a time or later."""
        from replicator_source_postgres.catalogue import CatalogueConnection
        from replicator_source_postgres.diagnosis import diagnosed
        from replicator_source_postgres.replication.chosen_start import ChosenStart
        from replicator_source_postgres.replication.slot import Slot

        publication = self.config.publication or derived_name(namespace, name)
        with contextlib.closing(CatalogueConnection(self.endpoint())) as connection, diagnosed("looking at the slot"):
            slot = Slot(connection.catalogue.connection, self.config.slot or "", self.config.database)
            return ChosenStart(self.endpoint(), slot, publication).find(start)

    def create_table_registry(self) -> TableRegistry:
        """Tables from the server's catalogue."""
        from replicator_source_postgres.table_registry import PostgresTableRegistry

        return PostgresTableRegistry(self.endpoint())

    def create_table_assessor(self) -> TableAssessor:
        """Findings with the SQL that fixes them."""
        from replicator_source_postgres.assessment import PostgresTableAssessor

        return PostgresTableAssessor(self.endpoint())

    def check_log(self, offset: Offset, *, namespace: str, name: str) -> None:
        """Check that the slot is there and still holds the log after `offset`."""
        from replicator_source_postgres.catalogue import CatalogueConnection
        from replicator_source_postgres.diagnosis import diagnosed
        from replicator_source_postgres.replication.slot import Slot

        assert isinstance(offset, PostgresOffset)
        with contextlib.closing(CatalogueConnection(self.endpoint())) as connection, diagnosed("looking at the slot"):
            slot = self.config.slot or derived_name(namespace, name)
            Slot(connection.catalogue.connection, slot, self.config.database).check_log(offset)

    def create_clean_up(self, *, namespace: str, name: str, stored: Sequence[StoredState]) -> SourceCleanUp | None:
        """Drops the slot and the publication that have derived names."""
        from replicator_source_postgres.replication.clean_up import PostgresCleanUp
        from replicator_source_postgres.replication.ownership import Ownership

        return PostgresCleanUp(self.endpoint(), derived_name(namespace, name), Ownership(stored))

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """A reader of the slot and publication named in the settings, or derived from the pipeline's name."""
        from replicator_source_postgres.streaming.reader import PostgresEventReader

        own = derived_name(context.namespace, context.replicator_name)
        return PostgresEventReader(
            self.endpoint(f"replicator {context.replicator_name}"),
            self.config.slot or own,
            self.config.publication or own,
            definition,
            context,
            emitter,
            owns_slot=self.config.slot is None,
        )

    def create_snapshot_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> SnapshotReader | None:
        """Snapshots through exported snapshots of temporary slots."""
        from replicator_source_postgres.snapshots.snapshot import PostgresSnapshotReader

        policy = self.config.out_of_range or definition.out_of_range
        endpoint = self.endpoint(f"replicator {context.replicator_name}")
        publication = self.config.publication or derived_name(context.namespace, context.replicator_name)
        return PostgresSnapshotReader(endpoint, publication, policy, definition, context)

    def sample_rows(self, definition: EventReaderDefinition, table: TableId, rows: int) -> pa.RecordBatch | None:
        """The first rows that the server finds, in a transaction that only reads."""
        from replicator_source_postgres.snapshots.sample import sample_rows

        policy = self.config.out_of_range or definition.out_of_range
        return sample_rows(self.endpoint("replicator sample"), definition, table, rows, policy)


def derived_name(namespace: str, name: str) -> str:
    """A slot and publication name for a pipeline: readable, and different for different pipelines."""
    plain = re.sub(r"[^a-z0-9_]", "_", f"{namespace}_{name}".lower())
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:8]
    return f"replicator_{plain[:43]}_{digest}"
