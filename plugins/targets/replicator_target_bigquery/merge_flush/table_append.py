"""Neither upsert nor delete: rows are appended to the destination, each once, by pending streams.

A stream's commit is outside every transaction. So it is announced in the commit log before it is requested, as snapshot loads
are, and the next run commits what was announced: committing a stream twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.event import DMLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.commit_log.commit import APPENDING, Commit
from replicator_target_bigquery.config import SEQUENCE
from replicator_target_bigquery.merge_flush.intermediate.key_column import key_array
from replicator_target_bigquery.merge_flush.requirements import missing_columns
from replicator_target_bigquery.merge_flush.streaming.write_api import WriteApi
from replicator_target_bigquery.schema.encoding import columns_of
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.schema.schema_check import require_match
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.tables.target_table import TargetTable

register("merge_flush.append.streamed", "merge_flush.append.announced", "merge_flush.append.committed")


class TableAppend:
    """Appends to one table. Called under the table's lock."""

    def __init__(self, table: TargetTable, api: WriteApi) -> None:
        self._table = table
        self._api = api
        self._config = table.session.config

    def settle(self) -> None:
        """Commit announced streams that may not be committed yet."""
        for announced in self._table.state().appending:
            self._commit(announced)

    def apply(self, changes: TableChanges) -> None:
        """Append the rows written, with the table's progress; nothing when the table has them already."""
        self.settle()
        table = self._table
        if table.has(changes):
            return
        if any(batch.unchanged for batch in changes.batches()):
            raise missing_columns(changes)
        found = table.ensure_created(changes.schema)
        require_match(changes, self._table.session.layout.target_fields(changes.schema, found.fields), found)
        progress = TableProgress.of(changes.identity)
        stream = self._api.create(self._table.ref.path, changes.table, pending=True)
        rows = self._api.append(stream, self._rows(changes, found), changes.table)
        self._api.close_stream(stream, changes.table)
        failpoint("merge_flush.append.streamed")
        metrics = table.session.context.metrics
        metrics.count("bigquery.rows_streamed", rows, table=changes.table)
        metrics.count("bigquery.deletes_left_out", changes.rows - rows, table=changes.table)
        if not rows:
            table.commit(table.row(progress, f"append-{changes.identity}"))
            return
        announced = table.row(progress, f"announce-{changes.identity}", kind=APPENDING, note=stream.name)
        table.commit(announced)
        failpoint("merge_flush.append.announced")
        self._commit(announced)

    def _commit(self, announced: Commit) -> None:
        assert announced.progress is not None
        self._api.commit(self._table.ref.path, announced.note, self._table.table)
        failpoint("merge_flush.append.committed")
        appended = self._table.ownership.taken_over(announced.progress)
        self._table.commit(self._table.row(appended, f"append-{announced.batch}"))

    def _rows(self, changes: TableChanges, found: TableInfo) -> Iterator[pa.RecordBatch]:
        """The rows that inserts and updates wrote, with the destination's columns."""
        names = column_names(changes.schema, self._config.metadata_columns)
        layout = self._table.session.layout
        encoding = layout.encoding(changes.table, layout.target_fields(changes.schema, found.fields))
        for batch in changes.batches():
            codes = batch.op.to_numpy(zero_copy_only=False)
            kept = pa.array(np.flatnonzero(codes != DMLOperation.DELETE))
            source = columns_of(batch.row.take(kept))
            columns = {SEQUENCE: pa.array(batch.sequence_numbers, pa.int64()).take(kept)}
            if self._config.kafka_key_field_name and changes.schema.primary_key:
                columns[self._config.kafka_key_field_name] = key_array(changes.schema, source)
            columns |= {names[name]: encoding.column(names[name], column) for name, column in source.items()}
            schema = [pa.field(n, c.type, nullable=encoding.fields[n].mode != "REQUIRED") for n, c in columns.items()]
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(schema))
