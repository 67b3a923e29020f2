"""The consumer of mode `batch`."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.distributed.slices import RangeConsumer, SliceChanges, SliceOutcome
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import DeferredConsumer
from replicator_target_bigquery.batch.repair import RepairingConsumer
from replicator_target_bigquery.batch.slice_apply import SliceApply
from replicator_target_bigquery.batch.staging import delete_files
from replicator_target_bigquery.batch.table_loads import TableLoads
from replicator_target_bigquery.config import BigQueryConfig

_LOADS_AT_ONCE: Final = 8


class BatchMergeConsumer(RepairingConsumer, DeferredConsumer, RangeConsumer):
    """Loads batches into staging tables and merges them. Safe from several threads; calls for one table take turns."""

    keeps_unmatched: ClassVar[bool] = True

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._pool = ThreadPoolExecutor(_LOADS_AT_ONCE, thread_name_prefix="load")
        self._loads: dict[TableId, TableLoads] = {}
        self.slice_interval = config.load_interval

    def apply_batch(self, changes: TableChanges) -> None:
        """Apply a table's changes and its progress in one commit, now or once `loadInterval` is over."""
        self._loads_of(changes.table).take(changes)

    def apply_slice(self, changes: SliceChanges) -> SliceOutcome:
        """Have Spark's executors read a slice of a log and write its changes to the bucket; one load and one commit a table."""
        return SliceApply(self._table, self._session, self._pool, changes).run()

    def settled(self, table: TableId) -> Position | None:
        """The position of the last commit of the table; begins a load when `loadInterval` is over."""
        return self._loads_of(table).settled()

    def settle(self, tables: Collection[TableId]) -> None:
        """Load everything that is held of these tables."""
        for table in tables:
            self._loads_of(table).begin()
        for table in tables:
            self._loads_of(table).settle()

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure after everything that is held."""
        for table in (event.table, event.prev_table):
            if table is not None and table in self._loads:
                loads = self._loads_of(table)
                loads.settle()
                loads.settled()
        super().apply_ddl(event)
        gone = {DDLOperation.DROP_TABLE: event.table, DDLOperation.RENAME_TABLE: event.prev_table}.get(event.operation)
        if gone is not None:
            self._delete_files(gone)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Prepare the table for a plan's chunks; changes that are held are dropped."""
        self._loads_of(schema.table).discard()
        return super().begin_snapshot(schema, snapshot_id, position)

    def stop(self) -> None:
        """Drop what was not loaded, and close the connections."""
        self._jobs.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for loads in self._loads.values():
            loads.discard()
        self._loads.clear()
        super().stop()

    def _discard(self, table: TableId, *, forgets_position: bool = False) -> None:
        super()._discard(table, forgets_position=forgets_position)
        self._delete_files(table)

    def _delete_files(self, table: TableId) -> None:
        """Delete what killed runs have left of its batches in the bucket: no later batch does it."""
        target = self._table(table)
        with target.lock:
            delete_files(target)

    def _loads_of(self, table: TableId) -> TableLoads:
        target = self._table(table)
        with self._lock:
            if table not in self._loads:
                self._loads[table] = TableLoads(target, self._rate_limit, self._pool)
            return self._loads[table]
