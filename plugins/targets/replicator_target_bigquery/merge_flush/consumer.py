"""The door of mode `merge-flush`: a consumer that streams ahead of its merges, and one that only appends."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.event import DDLEvent
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import DeferredConsumer, TableProgress
from replicator_target_bigquery.alteration import Alteration
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.merge_flush.appending import TableAppend
from replicator_target_bigquery.merge_flush.default_stream import DefaultStream
from replicator_target_bigquery.merge_flush.flow import TableFlow
from replicator_target_bigquery.merge_flush.insert_all import InsertAll
from replicator_target_bigquery.merge_flush.intermediate import Intermediates
from replicator_target_bigquery.merge_flush.key_changes import KeyAlteration
from replicator_target_bigquery.merge_flush.refusal import must_have_key
from replicator_target_bigquery.merge_flush.streams import Streams
from replicator_target_bigquery.merge_flush.write_api import WriteApi

_MERGES_AT_ONCE: Final = 8


def create(config: BigQueryConfig, context: DeltaTargetContext) -> BigQueryConsumer:
    """The consumer that the settings ask for."""
    return MergeFlushConsumer(config, context) if config.merges else AppendConsumer(config, context)


class MergeFlushConsumer(BigQueryConsumer, DeferredConsumer):
    """Streams changes into intermediate tables and merges them by interval or number. Safe from several threads."""

    alteration: ClassVar[type[Alteration]] = KeyAlteration

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._streams = self._choose_streams(config)
        self._intermediates = Intermediates(self._clients.bigquery, context.metrics)
        self._pool = ThreadPoolExecutor(_MERGES_AT_ONCE, thread_name_prefix="merge")
        self._flows: dict[TableId, TableFlow] = {}

    def apply_batch(self, changes: TableChanges) -> None:
        """Stream a table's changes; a merge commits them with their progress."""
        self._flow(changes.table).take(changes)

    def settled(self, table: TableId) -> Position | None:
        """The position of the last merge of the table; begins one when `mergeIntervalMs` is over."""
        return self._flow(table).settled()

    def settle(self, tables: Collection[TableId]) -> None:
        """Merge everything streamed for these tables, all at once."""
        flows = [self._flow(table) for table in tables]
        for flow in flows:
            flow.begin()
        for flow in flows:
            flow.settle()

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure behind everything streamed; later rows go into another intermediate table."""
        if event.schema is not None:
            must_have_key(event.schema)
        for table in (event.table, event.prev_table):
            if table is not None and table in self._flows:
                flow = self._flow(table)
                flow.settle()
                flow.settled()
                flow.leave()
        super().apply_ddl(event)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready for a plan's chunks; what was streamed before is of no use any more."""
        must_have_key(schema)
        self._flow(schema.table).leave()
        return super().begin_snapshot(schema, snapshot_id, position)

    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """The table is whole and takes changes from now on."""
        super().finish_snapshot(schema, snapshot_id, position)
        self._flow(schema.table).leave()

    def stop(self) -> None:
        """Drop what was not merged, and the intermediate tables."""
        self._jobs.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for flow in self._flows.values():
            flow.leave()
        self._flows.clear()
        self._streams.close()
        super().stop()

    def _choose_streams(self, config: BigQueryConfig) -> Streams:
        if not config.use_storage_write_api:
            return InsertAll(self._clients.bigquery, self._jobs)
        return DefaultStream(config, self._jobs) if config.use_default_stream else WriteApi(config, self._jobs)

    def _flow(self, table: TableId) -> TableFlow:
        target = self._table(table)
        with self._lock:
            if table not in self._flows:
                self._flows[table] = TableFlow(
                    target, self._streams, self._intermediates, self._pool, self._turn(table)
                )
            return self._flows[table]


class AppendConsumer(BigQueryConsumer):
    """Appends every row that is written at the source. Safe from several threads; calls for one table take turns."""

    alteration: ClassVar[type[Alteration]] = KeyAlteration

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._api = WriteApi(config, self._jobs)

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's last commit says, once what was announced is committed."""
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
        """Nothing is held back between calls."""
        super().stop()
        self._api.close()
