"""The running target: takes batches, DDL and snapshot chunks, one table at a time each, several tables at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from replicator_sdk.authoring.row_repair import RepairableConsumer
from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import BugError, NeedsUserError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import EarlierVersion, RewindableConsumer, SnapshotLoader, TableProgress
from replicator_target_iceberg.apply.table_apply import TableApply
from replicator_target_iceberg.config import DropTables, IcebergConfig, Mode
from replicator_target_iceberg.ddl.ddl_events import TableDDL
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.log.branch import other_branches
from replicator_target_iceberg.rewind import IcebergRewind
from replicator_target_iceberg.snapshot import TableSnapshotLoad
from replicator_target_iceberg.table import TargetTable
from replicator_target_iceberg.versions.copy_branch import aside_of
from replicator_target_iceberg.versions.copying import VersionsSnapshotLoad

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)


class IcebergConsumer(SnapshotLoader, RewindableConsumer, RepairableConsumer):
    """Applies events at Iceberg tables. Safe from several threads; calls for one table take turns."""

    def __init__(self, config: IcebergConfig, context: DeltaTargetContext) -> None:
        self._config, self._context = config, context
        self._spark: SparkSession = context.spark()
        self._opened: Catalog | None = None
        self._tables: dict[TableId, TargetTable] = {}
        self._lock = threading.Lock()

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's newest commit says."""
        return self._table(table).progress()

    def apply_batch(self, changes: TableChanges) -> None:
        """Apply a table's changes and its progress in one commit."""
        table = self._table(changes.table)
        with table.lock:
            TableApply(table, self._config, self._context).apply(changes)

    def repair_rows(self, changes: TableChanges) -> None:
        """Write the rows of some keys again, in one commit at the table's own position."""
        table = self._table(changes.table)
        with table.lock:
            TableApply(table, self._config, self._context).repair(changes)

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure, with its position in the same commit."""
        if event.operation in {DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE, DDLOperation.RENAME_TABLE}:
            raise BugError(f"the target was given a {event.operation}, which it does not take", code="RPL-9427")
        table = self._table(event.table)
        with table.lock:
            TableDDL(table, self._config, self._catalog.jvm).apply(event)
            if event.operation is DDLOperation.DROP_TABLE:
                self._drop(table)

    def find_version(self, table: TableId, position: Position) -> EarlierVersion | None:
        """The snapshot that `rewind_table` goes back to, found in the table's metadata."""
        target = self._table(table)
        with target.lock:
            return IcebergRewind(target).find(position)

    def rewind_table(self, table: TableId, position: Position) -> TableProgress | None:
        """Bring rows, columns and progress of that snapshot back in one commit."""
        target = self._table(table)
        with target.lock:
            return IcebergRewind(target).rewind(position)

    def _drop(self, table: TargetTable) -> None:
        """Follow `dropTables`, and log what happens to the data; of an event that comes again the table may have a successor, which stays."""
        record = table.begin().record
        if record is None or not record.dropped:
            return
        name = f"{self._config.catalog}.{table.name}"
        if self._config.drop_tables is DropTables.KEEP:
            why = 'the source dropped it; dropTables is "keep"'
            log.warning("iceberg.table_kept", table=str(table.table), name=name, why=why)
            return
        table.drop()
        why = 'the source dropped it; dropTables is "drop"'
        log.warning("iceberg.table_deleted", table=str(table.table), name=name, why=why)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready to take the chunks of a plan."""
        table = self._table(schema.table)
        with table.lock:
            return self._load(table).begin(schema, snapshot_id, position)

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        """Load chunks on the executors and commit them together."""
        table = self._table(schema.table)
        with table.lock:
            return self._load(table).load(schema, snapshot_id, chunks, read)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """The table is whole and takes changes from now on."""
        table = self._table(schema.table)
        with table.lock:
            self._load(table).finish(schema, snapshot_id, position)

    def discard_snapshot(self, table: TableId, snapshot_id: str) -> None:
        """Drop the branch with a later copy of versions that no run goes on with."""
        target = self._table(table)
        with target.lock:
            try:
                attempt = target.begin()
            except NeedsUserError:
                return  # not this replicator's
            aside = None if attempt.version is None else aside_of(attempt.version, self._config.branch)
            if aside is None or aside.snapshot_id != snapshot_id or attempt.progress is None:
                return
            change = target.change(attempt)

            def dropping() -> None:
                change.drop_copy(attempt.version)
                change.append()

            target.commit(attempt, change, target.ownership.taken_over(attempt.progress), dropping)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Load a table in one commit, which replaces what it had."""
        table = self._table(schema.table)
        with table.lock:
            return self._load(table).load_whole(schema, snapshot_id, position, chunks, read, all_read)

    def delete_table(self, table: TableId) -> str:
        """Delete the table with its files; another writer's table stays, and one with other branches than that of the settings."""
        target = self._table(table)
        with target.lock:
            try:
                target.forget()
                version = target.begin(replacing=True).version
            except NeedsUserError as error:
                return error.message
            if version is not None and (others := other_branches(version.metadata, self._config.branch)):
                return f"it has rows in other branches, too ({', '.join(others)}): drop it in its catalog"
            if version is not None:
                target.drop()
        return ""

    def stop(self) -> None:
        """Nothing is held back between calls, so there is nothing to drop; connections to the catalog are given back."""
        with self._lock:
            self._tables.clear()
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = Catalog(self._spark, self._config)
        return self._opened

    def _load(self, table: TargetTable) -> TableSnapshotLoad:
        kind = VersionsSnapshotLoad if self._config.mode is Mode.SCD2 else TableSnapshotLoad
        return kind(table, self._config, self._spark, self._catalog.jvm, lambda: self._context.is_stopping)

    def _table(self, table: TableId) -> TargetTable:
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TargetTable(table, self._config, self._context, self._catalog)
            return self._tables[table]
