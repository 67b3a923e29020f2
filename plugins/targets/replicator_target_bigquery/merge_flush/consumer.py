"""The consumers of mode `merge-flush`: one streams ahead of its merges, one only appends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_sdk.target import DeferredConsumer, TableProgress
from replicator_target_bigquery.batch.repair import RepairingConsumer
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.ddl.alteration import Alteration
from replicator_target_bigquery.merge_flush.intermediate.tables import IntermediateTables
from replicator_target_bigquery.merge_flush.key_alteration import KeyAlteration
from replicator_target_bigquery.merge_flush.layout import MergeFlushLayout
from replicator_target_bigquery.merge_flush.requirements import require_key
from replicator_target_bigquery.merge_flush.streaming.default_stream import DefaultStream
from replicator_target_bigquery.merge_flush.streaming.insert_all import InsertAll
from replicator_target_bigquery.merge_flush.streaming.streams import Streams
from replicator_target_bigquery.merge_flush.streaming.write_api import WriteApi
from replicator_target_bigquery.merge_flush.table_append import TableAppend
from replicator_target_bigquery.merge_flush.table_flush import TableFlush
from replicator_target_bigquery.schema.layout import TableLayout

_MERGES_AT_ONCE: Final = 8


def create(config: BigQueryConfig, context: DeltaTargetContext) -> BigQueryConsumer:
    """The consumer for the settings: one that merges, or one that only appends."""
    return MergeFlushConsumer(config, context) if config.merges else AppendConsumer(config, context)


class MergeFlushConsumer(RepairingConsumer, DeferredConsumer):
    """Streams changes into intermediate tables and merges them by interval or number. Safe from several threads."""

    layout: ClassVar[type[TableLayout]] = MergeFlushLayout
    alteration: ClassVar[type[Alteration]] = KeyAlteration

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._streams = self._choose_streams(config)
        self._intermediates = IntermediateTables(self._clients.bigquery, context.metrics)
        self._pool = ThreadPoolExecutor(_MERGES_AT_ONCE, thread_name_prefix="merge")
        self._flushes: dict[TableId, TableFlush] = {}

    def apply_batch(self, changes: TableChanges) -> None:
        """Stream a table's changes; a merge commits them with their progress."""
        self._flush(changes.table).take(changes)

    def settled(self, table: TableId) -> Position | None:
        """The position of the last merge of the table; begins one when `mergeIntervalMs` is over."""
        return self._flush(table).settled()

    def settle(self, tables: Collection[TableId]) -> None:
        """Merge everything streamed for these tables, all at once."""
        flushes = [self._flush(table) for table in tables]
        for flush in flushes:
            flush.begin()
        for flush in flushes:
            flush.settle()

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure after everything streamed is merged; later rows use another intermediate table."""
        if event.schema is not None:
            require_key(event.schema)
        for table in (event.table, event.prev_table):
            if table is not None and table in self._flushes:
                flush = self._flush(table)
                flush.settle()
                flush.settled()
                flush.discard()
        if event.operation is DDLOperation.DROP_TABLE:  # no later run streams into it, and looks for what is left of it
            self._intermediates.remove_orphans(self._table(event.table))
        super().apply_ddl(event)

    def _rename(self, event: DDLEvent) -> None:
        super()._rename(event)
        if event.prev_table is not None:  # no table may have that name again that would look for them
            self._intermediates.remove_orphans(self._table(event.prev_table))

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Prepare the table for a plan's chunks; rows that were streamed before are dropped."""
        require_key(schema)
        self._flush(schema.table).discard()
        return super().begin_snapshot(schema, snapshot_id, position)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Replace the table's rows; rows that were streamed before are dropped."""
        require_key(schema)
        self._flush(schema.table).discard()
        return super().load_whole(schema, snapshot_id, position, chunks, read, all_read)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """Mark the snapshot as complete: the table takes changes from now on."""
        super().finish_snapshot(schema, snapshot_id, position)
        self._flush(schema.table).discard()

    def stop(self) -> None:
        """Drop what was not merged, and the intermediate tables; close the connections."""
        self._jobs.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for flush in self._flushes.values():
            flush.discard()
        self._flushes.clear()
        self._streams.close()
        super().stop()

    def _choose_streams(self, config: BigQueryConfig) -> Streams:
        if not config.use_storage_write_api:
            return InsertAll(self._clients.bigquery, self._jobs)
        return DefaultStream(config, self._jobs) if config.use_default_stream else WriteApi(config, self._jobs)

    def _flush(self, table: TableId) -> TableFlush:
        target = self._table(table)
        with self._lock:
            if table not in self._flushes:
                self._flushes[table] = TableFlush(
                    target, self._streams, self._intermediates, self._pool, self._turn(table)
                )
            return self._flushes[table]


class AppendConsumer(BigQueryConsumer):
    """Appends every row that is written at the source. Safe from several threads; calls for one table take turns."""

    layout: ClassVar[type[TableLayout]] = MergeFlushLayout
    alteration: ClassVar[type[Alteration]] = KeyAlteration
    streams_into_tables: ClassVar[bool] = True
    keeps_unmatched: ClassVar[bool] = True  # no removal has an effect here

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._api = WriteApi(config, self._jobs)

    def progress(self, table: TableId) -> TableProgress | None:
        """How far the table is, after announced streams are committed."""
        target = self._table(table)
        with target.lock:
            target.forget()
            TableAppend(target, self._api).settle()
        return super().progress(table)

    def apply_batch(self, changes: TableChanges) -> None:
        """Append a table's rows; durable on return."""
        table = self._table(changes.table)
        with table.lock:
            TableAppend(table, self._api).apply(changes)

    def stop(self) -> None:
        """Close the connections; no call holds rows back."""
        super().stop()
        self._api.close()
