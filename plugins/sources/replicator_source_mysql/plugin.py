"""The source plugin, as the runtime calls it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import Configurer, DeltaSourceContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.clean_up import NothingToRemove, SourceCleanUp, StoredState
from replicator_sdk.discovery.dataset import Dataset
from replicator_sdk.discovery.source_health import SourceHealth
from replicator_sdk.discovery.table_registry import TableRegistry
from replicator_sdk.event import DDLOperation
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_sdk.snapshot import SnapshotReader
from replicator_sdk.source import DeltaSource, EventEmitter, EventReader, EventReaderDefinition, StartFrom
from replicator_source_mysql.binlog.log_availability import check_readable, current_offset, origin_of
from replicator_source_mysql.config import MySqlConfig
from replicator_source_mysql.connect.connection import Endpoint, server_of
from replicator_source_mysql.connect.diagnosis import diagnosed
from replicator_source_mysql.offset import MySqlOffset

if TYPE_CHECKING:
    import pyarrow as pa
    import pymysql

    from replicator_source_mysql.binlog.dump.log_fingerprint import CreationTimes


class MySqlSource(DeltaSource[MySqlConfig]):
    """MySQL 8 and 9, MariaDB 10 and 11, through the binlog; see `DeltaSource`."""

    name: ClassVar[str] = "mysql"
    title: ClassVar[str] = "MySQL 8 and 9, MariaDB 10 and 11, row-based binlog"
    config_type: ClassVar[type[PluginConfig]] = MySqlConfig
    offset_type: ClassVar[type[Offset]] = MySqlOffset
    unseen_ddl: ClassVar[frozenset[DDLOperation]] = frozenset()
    filters_snapshots: ClassVar[bool] = True
    marks_refused: ClassVar[bool] = True
    starts_from: ClassVar[frozenset[Literal["offset", "time"]]] = frozenset({"offset", "time"})

    def configure(self, configurer: Configurer) -> None:
        """Refuse a certificate file that does not exist; the settings model checks everything else."""
        root = self.config.ssl_root_cert
        if root is not None and not root.is_file():
            configurer.add_failure(
                f"the file {str(root)!r} is not there",
                path="sslRootCert",
                hint="give the server's authority in PEM form",
            )

    def endpoint(self, application: str = "replicator") -> Endpoint:
        """Where and as whom to connect."""
        return Endpoint(self.config, application)

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: host and port, and database and table; the same of MariaDB."""
        return Dataset(f"mysql://{self.config.host}:{self.config.port}", f"{table.database}.{table.table}")

    def identity(self) -> str:
        """Whether it is MySQL or MariaDB. A foreign server is recognised by its identity or GTIDs when reading begins: after a
        failover the server is another one, and its log is the same.
        """
        with self.endpoint().session() as connection:
            return "mariadb" if server_of(connection).is_mariadb else "mysql"

    def latest_offset(self) -> MySqlOffset:
        """The end of the binlog, which the reader reaches without further changes at the source."""
        with self.endpoint().session() as connection:
            return current_offset(connection, origin_of(connection))

    def health(self, offset: Offset | None, *, namespace: str, name: str) -> SourceHealth:  # noqa: ARG002 - part of the contract
        """The server's clock, the binlog after `offset`, and for how long binlogs are kept."""
        from replicator_source_mysql.binlog.source_health import source_health

        assert offset is None or isinstance(offset, MySqlOffset)
        with self.endpoint().session() as connection:
            return source_health(connection, offset)

    def find_start(self, start: StartFrom, *, namespace: str, name: str) -> Offset:
        """The place of a file and position, of GTIDs, or before the first transaction committed at a time or later."""
        from replicator_source_mysql.starts.log_walk import LogWalk
        from replicator_source_mysql.starts.positions import Positions
        from replicator_source_mysql.streaming.usual_session import usual_session

        endpoint = self.endpoint()
        with endpoint.session() as connection, diagnosed("looking for a position in the log"):
            origin = origin_of(connection)
            usual = usual_session(connection, is_mariadb=origin.server.is_mariadb)
            walk = LogWalk(endpoint, origin, usual, self._server_id(namespace, name))
            return Positions(connection, walk).find(start)

    def _server_id(self, namespace: str, name: str) -> int:
        return self.config.server_id or derived_server_id(namespace, name)

    def create_table_registry(self) -> TableRegistry:
        """The catalogue."""
        from replicator_source_mysql.table_registry import MySqlTableRegistry

        return MySqlTableRegistry(self.endpoint())

    def create_table_assessor(self) -> TableAssessor:
        """Findings with the SQL that fixes them."""
        from replicator_source_mysql.assessment.assessor import MySqlTableAssessor

        return MySqlTableAssessor(self.endpoint(), self.config.server_id)

    def check_log(self, offset: Offset, *, namespace: str, name: str) -> None:  # noqa: ARG002 - part of the contract
        """Check that the server has the binlog after `offset`."""
        assert isinstance(offset, MySqlOffset)
        with self.endpoint().session() as connection, diagnosed("looking at the log"):
            check_readable(connection, origin_of(connection), offset)

    def check_state(self, offset: Offset, stored: StoredState) -> None:
        """Check that the schema history knows what tables were at `offset`."""
        from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY, stored_history

        assert isinstance(offset, MySqlOffset)
        stored_history(stored.get_state(HISTORY_KEY), offset).check_reaches(offset.reading_from)

    def create_clean_up(
        self,
        *,
        namespace: str,  # noqa: ARG002 - part of the contract
        name: str,  # noqa: ARG002 - part of the contract
        stored: Sequence[StoredState],  # noqa: ARG002 - part of the contract
    ) -> SourceCleanUp | None:
        """Nothing: a replica leaves nothing at the server."""
        return NothingToRemove()

    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """A reader of the binlog, as a replica with the server id of the settings or one derived from the name."""
        from replicator_source_mysql.streaming.reader import MySqlEventReader

        server_id = self._server_id(context.namespace, context.replicator_name)
        endpoint = self.endpoint(f"replicator {context.replicator_name}")
        return MySqlEventReader(endpoint, server_id, definition, context, emitter)

    def create_snapshot_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext
    ) -> SnapshotReader | None:
        """Snapshots by ranges of the key; of tables without one, at a position."""
        from replicator_source_mysql.snapshots.snapshot import MySqlSnapshotReader

        policy = self.config.out_of_range or definition.out_of_range
        endpoint = self.endpoint(f"replicator {context.replicator_name}")
        return MySqlSnapshotReader(
            endpoint, _end_of_log, policy, definition.narrowed, self._creation_times.proven, definition.conditions
        )

    def sample_rows(self, definition: EventReaderDefinition, table: TableId, rows: int) -> pa.RecordBatch | None:
        """The first rows that the server finds, in a transaction that only reads."""
        from replicator_source_mysql.snapshots.sample import sample_rows

        policy = self.config.out_of_range or definition.out_of_range
        return sample_rows(self.endpoint("replicator sample"), definition, table, rows, policy)

    @cached_property
    def _creation_times(self) -> CreationTimes:
        from replicator_source_mysql.binlog.dump.log_fingerprint import CreationTimes

        return CreationTimes(self.endpoint())


def _end_of_log(connection: pymysql.Connection[Any]) -> MySqlOffset:
    return current_offset(connection, origin_of(connection))


def derived_server_id(namespace: str, name: str) -> int:
    """A server id for a pipeline, far above those that people choose. Pipelines differ in it, since a server
    disconnects one of two replicas with one id.
    """
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).digest()
    return (1 << 31) + int.from_bytes(digest[:4], "big") % ((1 << 31) - 2)
