"""Writes single rows of a table again, as the batches of its changes are written: staged, and merged by one transaction."""

from __future__ import annotations

from dataclasses import replace

from replicator_sdk.authoring.row_repair import RepairableConsumer, unmoved
from replicator_sdk.batch import TableChanges
from replicator_target_bigquery.batch.table_merge import TableMerge
from replicator_target_bigquery.consumer import BigQueryConsumer


class RepairingConsumer(BigQueryConsumer, RepairableConsumer):
    """A consumer whose tables are changed by a MERGE alone; a mode adds how it applies changes."""

    def repair_rows(self, changes: TableChanges) -> None:
        """Replace the rows of some keys in one commit, which leaves the table where it is."""
        table = self._table(changes.table)
        with table.lock:
            table.forget()
            state = table.state()
            before = unmoved(None if state.dropped or state.altering else state.progress, changes)
            row = table.row(table.ownership.taken_over(before), "repair")
            row = replace(row, progress=replace(table.ownership.taken_over(before), batch=row.batch))
            TableMerge(table, self._turn(changes.table)).replace_rows(changes, row)
