"""Streams a batch of one table as net changes, then commits its progress: ordered, not atomic."""

from __future__ import annotations

from collections.abc import Iterator

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.api.diagnosis import too_large
from replicator_target_bigquery.cdc.append_requests import requests, row_parts
from replicator_target_bigquery.cdc.default_stream import DefaultStreams
from replicator_target_bigquery.cdc.layout import primary_key
from replicator_target_bigquery.cdc.net_rows import PSEUDO_COLUMNS, NetRows
from replicator_target_bigquery.cdc.protobuf_rows import MessageSchema
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.schema.schema_check import require_match
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.tables.target_table import TargetTable

register("bigquery.cdc.begun", "bigquery.cdc.appended")


class TableStream:
    """Applies batches to one table. Called under the table's lock.

    Args:
        table: The table.
        streams: Where rows are sent.
    """

    def __init__(self, table: TargetTable, streams: DefaultStreams) -> None:
        self._table = table
        self._streams = streams
        self._config = table.session.config

    def apply(self, changes: TableChanges) -> None:
        """Stream all changes, then commit their progress; nothing when the table has them already.

        Rows without committed progress are sent again later, with the same or a higher sequence number, and are then
        the same or newer.
        """
        table = self._table
        if table.has(changes):
            return
        key = primary_key(changes.schema)
        failpoint("bigquery.cdc.begun")
        table.forget()  # a stream does not check whether a newer run has the table, so the commit log is read each time
        if table.has(changes):
            return
        found = self._must_be_there(changes, key)
        row = table.row(TableProgress.of(changes.identity), f"batch-{changes.identity}")
        if changes.rows:
            self._stream(changes, found)
        failpoint("bigquery.cdc.appended")
        table.commit(row)

    def _stream(self, changes: TableChanges, found: TableInfo) -> None:
        session, ref = self._table.session, self._table.ref
        names = column_names(changes.schema, self._config.metadata_columns)
        fields = session.layout.target_fields(changes.schema, found.fields)
        schema = MessageSchema((*PSEUDO_COLUMNS, *fields))
        net = NetRows(changes, names, session.context.epoch, session.layout.encoding(changes.table, fields))

        def make(stream: str) -> Iterator[bytes]:
            where = str(changes.table), str(changes.identity.position)
            found = (p for rows in net for p in row_parts(schema.rows(rows), lambda: too_large(*where)))
            return requests(stream, schema, found)

        sent = self._streams.append(ref, changes.table, make)
        session.context.metrics.count("bigquery.batches", table=changes.table)
        session.context.metrics.count("bigquery.rows_streamed", changes.rows, table=changes.table)
        session.context.metrics.count("bigquery.append_requests", sent, table=changes.table)

    def _must_be_there(self, changes: TableChanges, key: tuple[str, ...]) -> TableInfo:
        """The table, created for its first changes; later it must be unchanged."""
        table, state = self._table, self._table.state()
        found = table.ensure_created(changes.schema)
        if state.last is None:  # from the first row on the table must be known as this replicator's
            table.commit(table.row(None, "begin"))
        require_match(changes, self._table.session.layout.target_fields(changes.schema, found.fields), found)
        _must_declare(changes, key, found)
        return found


def _must_declare(changes: TableChanges, key: tuple[str, ...], found: TableInfo) -> None:
    if tuple(c.lower() for c in found.key) != tuple(c.lower() for c in key):
        raise NeedsUserError(
            f"the target's table declares {', '.join(found.key) or 'no columns'} as its primary key, "
            f"the source's key is {', '.join(key)}",
            code="RPL-6704",
            table=str(changes.table),
            position=str(changes.identity.position),
            hint=f"ALTER TABLE … {'DROP PRIMARY KEY, then ' if found.key else ''}ADD PRIMARY KEY ({', '.join(key)}) NOT ENFORCED, or copy the table again: `replicator table resync NAME TABLE --in-place`",
        )
