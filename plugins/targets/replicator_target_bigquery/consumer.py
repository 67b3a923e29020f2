"""The running target: takes batches, DDL and snapshot chunks, one table at a time each, several tables at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import BatchConsumer, SnapshotLoader, TableProgress
from replicator_target_bigquery.alteration import Alteration
from replicator_target_bigquery.apply import TableApply
from replicator_target_bigquery.cdc import CdcDDL, CdcSnapshotLoad, ChangeStreaming, DefaultStreams, refuse_rename
from replicator_target_bigquery.client import Clients
from replicator_target_bigquery.commits import prune
from replicator_target_bigquery.config import BigQueryConfig, Mode
from replicator_target_bigquery.ddl import TableDDL, rename
from replicator_target_bigquery.jobs import Jobs
from replicator_target_bigquery.pace import Pace
from replicator_target_bigquery.place import Place
from replicator_target_bigquery.snapshot import TableSnapshotLoad
from replicator_target_bigquery.table import Session, TargetTable
from replicator_target_bigquery.warehouse import Warehouse


def prune_commits(config: BigQueryConfig, context: DeltaTargetContext, tables: Sequence[TableId]) -> None:
    """Remove rows of the commit logs of the tables' datasets that nobody will ask for again."""
    clients = Clients(config)
    jobs = Jobs(clients.bigquery, config, context.metrics, lambda: context.is_stopping)
    try:
        for place in {p.commits_id: p for p in (Place.of(table, config) for table in tables)}.values():
            if Warehouse(clients.bigquery, jobs, config).find(place.commits_id, tables[0]) is not None:
                jobs.read(prune(place), f"pruning {place.commits_id}", None)
    finally:
        clients.close()


class BigQueryConsumer(BatchConsumer, SnapshotLoader):
    """Applies events at BigQuery tables. Safe from several threads; calls for one table take turns.

    Class attributes:
        alteration: What makes the steps of an ALTER_TABLE.
    """

    alteration: ClassVar[type[Alteration]] = Alteration

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        self._clients = Clients(config)
        self._jobs = Jobs(self._clients.bigquery, config, context.metrics, lambda: context.is_stopping)
        warehouse = Warehouse(self._clients.bigquery, self._jobs, config)
        self._session = Session(config, context, self._jobs, warehouse, self._clients.storage)
        streaming = config.mode is Mode.CDC
        self._ingestion = DefaultStreams(config, self._jobs) if streaming else None
        self._snapshot = CdcSnapshotLoad if streaming else TableSnapshotLoad
        self._ddl = CdcDDL if streaming else TableDDL
        self._pace = Pace(config.load_interval, self._jobs.rest)
        self._tables: dict[TableId, TargetTable] = {}
        self._lock = threading.Lock()

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's last commit says; from then on no older run can write it."""
        target = self._table(table)
        with target.lock:
            target.forget()
            standing = target.standing()
            return None if standing.dropped else standing.progress

    def apply_batch(self, changes: TableChanges) -> None:
        """Apply a table's changes and its progress in one commit."""
        table = self._table(changes.table)
        with table.lock:
            if self._ingestion is not None:
                ChangeStreaming(table, self._ingestion).apply(changes)
            else:
                TableApply(table, self._turn(changes.table)).apply(changes)

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure; its position is committed once all of it is there."""
        if event.operation in {DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE}:
            return  # datasets come with their first table; other tables may live in them, so they are never dropped
        table = self._table(event.table)
        with table.lock:
            if event.operation is DDLOperation.RENAME_TABLE and event.prev_table is not None:
                if self._ingestion is not None:
                    refuse_rename(event)
                former = self._table(event.prev_table)
                with former.lock:
                    rename(former, table, event)
            else:
                self._ddl(table, self.alteration).apply(event)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready to take the chunks of a plan."""
        table = self._table(schema.table)
        with table.lock:
            return self._snapshot(table, self._turn(schema.table)).begin(schema, snapshot_id, position)

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        """Load chunks straight into the table by one job."""
        table = self._table(schema.table)
        with table.lock:
            return self._snapshot(table, self._turn(schema.table)).load(schema, snapshot_id, chunks, read)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """The table is whole and takes changes from now on."""
        table = self._table(schema.table)
        with table.lock:
            self._snapshot(table, self._turn(schema.table)).finish(schema, snapshot_id, position)

    def stop(self) -> None:
        """Nothing is held back between calls, so there is nothing to drop."""
        self._jobs.stop()
        if self._ingestion is not None:
            self._ingestion.close()
        with self._lock:
            self._tables.clear()
        self._clients.close()

    def _turn(self, table: TableId) -> Callable[[], None]:
        return lambda: self._pace.wait(table)

    def _table(self, table: TableId) -> TargetTable:
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TargetTable(table, self._session)
            return self._tables[table]
