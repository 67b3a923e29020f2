"""What the consumers of all modes share: progress, changes of structure and snapshots."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from replicator_sdk.authoring.table_ownership import owner_of
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import BatchConsumer, SnapshotLoader, TableProgress
from replicator_target_bigquery.api.clients import Clients
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log.commit import DROPPED
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.ddl.alteration import Alteration
from replicator_target_bigquery.ddl.database_ddl import DatabaseDDL
from replicator_target_bigquery.ddl.rename import is_possible, rename
from replicator_target_bigquery.ddl.table_ddl import TableDDL
from replicator_target_bigquery.load.copy_beside import CopyBeside
from replicator_target_bigquery.load.load_rate_limit import LoadRateLimit
from replicator_target_bigquery.load.snapshot_load import TableSnapshotLoad
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.tables.catalogue import Catalogue
from replicator_target_bigquery.tables.target_table import Session, TargetTable


class BigQueryConsumer(BatchConsumer, SnapshotLoader):
    """Applies structure changes and snapshots; a mode adds how it applies changes.

    Safe from several threads; calls for one table take turns.

    Class attributes:
        layout: What target tables look like.
        alteration: Creates the steps of an ALTER_TABLE.
        ddl: Applies changes of structure.
        snapshot_load: Loads snapshots.
        streams_into_tables: Whether rows are streamed into the tables themselves, which BigQuery does not rename then.
    """

    layout: ClassVar[type[TableLayout]] = TableLayout
    alteration: ClassVar[type[Alteration]] = Alteration
    ddl: ClassVar[type[TableDDL]] = TableDDL
    snapshot_load: ClassVar[type[TableSnapshotLoad]] = TableSnapshotLoad
    streams_into_tables: ClassVar[bool] = False
    follows_databases: ClassVar[bool] = True

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        self._clients = Clients(config)
        self._jobs = Jobs(self._clients.bigquery, config, context.metrics, lambda: context.is_stopping)
        catalogue = Catalogue(self._clients.bigquery, self._jobs, config, owner_of(context))
        self._session = Session(self.layout(config), context, self._jobs, catalogue, self._clients.storage)
        self._rate_limit = LoadRateLimit(config.load_interval, self._jobs.rest)
        self._tables: dict[TableId, TargetTable] = {}
        self._lock = threading.Lock()

    def progress(self, table: TableId) -> TableProgress | None:
        """How far the table is, by its last commit; from then on no older run can write it."""
        target = self._table(table)
        with target.lock:
            target.forget()
            state = target.state()
            if state.progress is None or state.dropped:
                return None
            return replace(state.progress, replaced=target.is_replaced())

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure; its position is committed once all of it is done."""
        if event.operation in {DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE}:
            DatabaseDDL(self._session, self._forget_dataset).apply(event)
            return
        table = self._table(event.table)
        with table.lock:
            if event.operation is DDLOperation.RENAME_TABLE and event.prev_table is not None:
                self._rename(event)
            else:
                self.ddl(table, self.alteration).apply(event)

    def can_rename(self, former: TableId, table: TableId) -> bool:
        """Within a dataset, unless rows are streamed into the table, or the new name is one of the replicator's own tables."""
        if self.streams_into_tables:
            return False
        try:
            return is_possible(self._table(former).ref, self._table(table).ref)
        except NeedsUserError:
            return False

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Prepare the table for the chunks of a plan; returns the indexes of those it has."""
        table = self._table(schema.table)
        with table.lock:
            return self.snapshot_load(table, self._turn(schema.table)).begin(schema, snapshot_id, position)

    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        """Load chunks straight into the table by one job."""
        table = self._table(schema.table)
        with table.lock:
            return self.snapshot_load(table, self._turn(schema.table)).load(schema, snapshot_id, chunks, read)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """Mark the snapshot as complete: the table takes changes from now on."""
        table = self._table(schema.table)
        with table.lock:
            self.snapshot_load(table, self._turn(schema.table)).finish(schema, snapshot_id, position)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Replace the rows that the table has by those of all chunks in one commit; a table without rows takes them in steps."""
        table = self._table(schema.table)
        if not self.snapshot_load.replaces:
            with table.lock:
                beside = CopyBeside(table, self._turn(schema.table))
                if beside.replaces_rows(schema, chunks):
                    return beside.copy(schema, snapshot_id, position, chunks, read, all_read)
        return super().load_whole(schema, snapshot_id, position, chunks, read, all_read)

    def discard_snapshot(self, table: TableId, snapshot_id: str) -> None:
        """Delete the plan's files in the staging bucket, and the table in which its copy was made."""
        beside = CopyBeside(self._table(table), self._turn(table))
        beside.discard_files(snapshot_id)
        beside.drop_copy(snapshot_id)

    def discard_table(self, table: TableId) -> None:
        """Drop the table, if it is this replicator's, with its staging table; the commit log says that it was dropped."""
        self._discard(table)

    def _discard(self, table: TableId, *, forgets_position: bool = False) -> None:
        target = self._table(table)
        with target.lock:
            target.forget()
            progress = target.state().progress
            if progress is None or target.state().dropped:
                return
            for table_id in (target.ref.id, target.ref.staging_id):
                self._session.catalogue.drop(table_id, table)
            target.drop_unmatched()
            target.changed()
            target.commit(target.row(None if forgets_position else progress, "discarded", kind=DROPPED))

    def delete_table(self, table: TableId) -> str:
        """As `discard_table`; another writer's table stays. A later replicator of this name may begin before the table's position."""
        try:
            self._discard(table, forgets_position=True)
        except NeedsUserError as error:
            return error.message
        return ""

    def stop(self) -> None:
        """End requests that wait, and close the connections; no call holds rows back, so none are lost."""
        self._jobs.stop()
        with self._lock:
            self._tables.clear()
        self._clients.close()

    def _rename(self, event: DDLEvent) -> None:
        assert event.prev_table is not None
        former = self._table(event.prev_table)
        with former.lock:
            rename(former, self._table(event.table), event)

    def _forget_dataset(self, ref: TableRef) -> None:
        """The dataset was dropped: what is remembered of its tables holds no more."""
        self._session.catalogue.forget(ref)
        self._session.states.forget(ref)
        with self._lock:
            for target in list(self._tables.values()):
                if (target.ref.project, target.ref.dataset) == (ref.project, ref.dataset):
                    target.forget()

    def _turn(self, table: TableId) -> Callable[[], None]:
        return lambda: self._rate_limit.wait(table)

    def _table(self, table: TableId) -> TargetTable:
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TargetTable(table, self._session)
            return self._tables[table]
