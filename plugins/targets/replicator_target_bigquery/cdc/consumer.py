"""The consumer of mode `cdc`."""

from __future__ import annotations

from typing import ClassVar

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.event import DDLEvent
from replicator_target_bigquery.cdc.ddl import CdcDDL, refuse_rename
from replicator_target_bigquery.cdc.default_stream import DefaultStreams
from replicator_target_bigquery.cdc.layout import CdcLayout
from replicator_target_bigquery.cdc.snapshot import CdcSnapshotLoad
from replicator_target_bigquery.cdc.table_stream import TableStream
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.ddl.table_ddl import TableDDL
from replicator_target_bigquery.load.snapshot_load import TableSnapshotLoad
from replicator_target_bigquery.schema.layout import TableLayout


class CdcConsumer(BigQueryConsumer):
    """Streams net changes into the tables. Safe from several threads; calls for one table take turns."""

    layout: ClassVar[type[TableLayout]] = CdcLayout
    ddl: ClassVar[type[TableDDL]] = CdcDDL
    snapshot_load: ClassVar[type[TableSnapshotLoad]] = CdcSnapshotLoad
    streams_into_tables: ClassVar[bool] = True

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._streams = DefaultStreams(config, self._jobs)

    def apply_batch(self, changes: TableChanges) -> None:
        """Stream a table's changes, then commit its progress."""
        table = self._table(changes.table)
        with table.lock:
            TableStream(table, self._streams).apply(changes)

    def stop(self) -> None:
        """End requests that wait, and close the connections."""
        self._jobs.stop()
        self._streams.close()
        super().stop()

    def _rename(self, event: DDLEvent) -> None:
        refuse_rename(event)
