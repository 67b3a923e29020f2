"""A few rows of a table, read without a position in the log."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from replicator_sdk.config import OutOfRange
from replicator_sdk.schema import TableId
from replicator_sdk.source import EventReaderDefinition
from replicator_source_mysql.connect.catalogue import Catalogue
from replicator_source_mysql.connect.connection import Endpoint
from replicator_source_mysql.snapshots.chunk_reader import PlannedTable, batches, begin_read
from replicator_source_mysql.snapshots.result_set import select
from replicator_source_mysql.snapshots.snapshot import find_table

_SECONDS = 20


def sample_rows(
    endpoint: Endpoint, definition: EventReaderDefinition, table: TableId, rows: int, out_of_range: OutOfRange
) -> pa.RecordBatch:
    """At most `rows` rows of `table`, fewer where they fill a batch; the server gives up after 20 seconds.

    Raises:
        ReplicatorError: When the table cannot be read, or a value is refused.
    """
    schema, condition = definition.tables[table], definition.conditions.get(table, "")
    with contextlib.closing(endpoint.connect()) as connection:
        shape = find_table(Catalogue(connection), table)
        planned = PlannedTable(shape, schema, "", endpoint.config.zero_dates, out_of_range, condition)
        with planned.diagnosed():
            planned.check_rows(connection)
            begin_read(connection, seconds=_SECONDS)
        query = f"{planned.query()} LIMIT {int(rows)}"
        found = select(connection, query, len(schema.columns), f"reading rows of {table}")
        batch = next(batches(found, planned, 0, marks=False), None)
    return pa.RecordBatch.from_pylist([], schema=schema.arrow) if batch is None else batch[0]
