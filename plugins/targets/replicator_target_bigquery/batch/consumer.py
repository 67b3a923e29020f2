"""The consumer of mode `batch`."""

from __future__ import annotations

from replicator_sdk.batch import TableChanges
from replicator_target_bigquery.batch.table_merge import TableMerge
from replicator_target_bigquery.consumer import BigQueryConsumer


class BatchMergeConsumer(BigQueryConsumer):
    """Loads each batch into a staging table and merges it. Safe from several threads; calls for one table take turns."""

    def apply_batch(self, changes: TableChanges) -> None:
        """Apply a table's changes and its progress in one commit."""
        table = self._table(changes.table)
        with table.lock:
            TableMerge(table, self._turn(changes.table)).apply(changes)
