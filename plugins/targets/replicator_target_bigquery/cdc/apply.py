"""One batch of one table: streamed as net changes, then said to be there. Nothing holds the two together but their order."""

from __future__ import annotations

from collections.abc import Iterator

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.apply import must_fit
from replicator_target_bigquery.cdc.appending import DefaultStreams
from replicator_target_bigquery.cdc.changes import PSEUDO_COLUMNS, NetRows
from replicator_target_bigquery.cdc.messages import MessageSchema
from replicator_target_bigquery.cdc.requests import pieces, requests
from replicator_target_bigquery.failures import too_large
from replicator_target_bigquery.names import column_names
from replicator_target_bigquery.primary_key import primary_key
from replicator_target_bigquery.table import TargetTable
from replicator_target_bigquery.warehouse import Found, target_fields

register("bigquery.cdc.begun", "bigquery.cdc.appended")


class ChangeStreaming:
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
        """Stream all changes, then commit their progress; nothing when the table stands there already.

        Rows that arrive without their progress arrive again later, with the same or a later sequence number, and are
        the same or newer.
        """
        table = self._table
        if table.has(changes):
            return
        key = primary_key(changes.schema)
        failpoint("bigquery.cdc.begun")
        table.forget()  # the stream asks nobody whether a newer run has the table, so the commit log is asked each time
        if table.has(changes):
            return
        self._must_be_there(changes, key)
        row = table.row(TableProgress.of(changes.identity), f"batch-{changes.identity}")
        if changes.rows:
            self._stream(changes)
        failpoint("bigquery.cdc.appended")
        table.commit(row)

    def _stream(self, changes: TableChanges) -> None:
        session, place = self._table.session, self._table.place
        names = column_names(changes.schema, self._config.metadata_columns)
        schema = MessageSchema((*PSEUDO_COLUMNS, *target_fields(changes.schema, self._config)))
        net = NetRows(changes, names, session.context.epoch)

        def make(stream: str) -> Iterator[bytes]:
            where = str(changes.table), str(changes.identity.position)
            found = (p for rows in net for p in pieces(schema.rows(rows), lambda: too_large(*where)))
            return requests(stream, schema, found)

        sent = self._streams.append(place, changes.table, make)
        session.context.metrics.count("bigquery.batches", table=changes.table)
        session.context.metrics.count("bigquery.rows_streamed", changes.rows, table=changes.table)
        session.context.metrics.count("bigquery.append_requests", sent, table=changes.table)

    def _must_be_there(self, changes: TableChanges, key: tuple[str, ...]) -> None:
        """Make the table for its very first changes; later it must be as it was left."""
        table, standing = self._table, self._table.standing()
        found = table.make(changes.schema)
        if standing.last is None:  # from the first row on nobody may take the table for a stranger's
            table.commit(table.row(None, "begin"))
        must_fit(changes, target_fields(changes.schema, self._config), found)
        _must_declare(changes, key, found)


def _must_declare(changes: TableChanges, key: tuple[str, ...], found: Found) -> None:
    if tuple(c.lower() for c in found.key) != tuple(c.lower() for c in key):
        raise NeedsUserError(
            f"the target's table declares {', '.join(found.key) or 'no columns'} as its primary key, "
            f"the source's key is {', '.join(key)}",
            code="RPL-6704",
            table=str(changes.table),
            position=str(changes.identity.position),
            hint=f"ALTER TABLE … ADD PRIMARY KEY ({', '.join(key)}) NOT ENFORCED, or take the table out of `tables`, run once and put it in again: it is copied again",
        )
