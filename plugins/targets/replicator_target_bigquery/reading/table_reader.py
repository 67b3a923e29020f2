"""Reads tables beside the run that writes them, one moment at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import chunk_dataframe
from replicator_sdk.target import TableProgress, TableReader, TableVersion
from replicator_target_bigquery.api.clients import Clients, read_client
from replicator_target_bigquery.api.first_answer import Service
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log.commit import TableState
from replicator_target_bigquery.commit_log.statements import read_rows, select
from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, BigQueryConfig, Mode
from replicator_target_bigquery.merge_flush.layout import MergeFlushLayout
from replicator_target_bigquery.reading.decoding import form_of, inexact
from replicator_target_bigquery.reading.streams import StreamRows, altered, chunks_of
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.schema.schema_check import schema_mismatch
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.pruning import every_row
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.sql.text import name as quoted
from replicator_target_bigquery.tables.catalogue import Catalogue
from replicator_target_bigquery.tables.ownership import BigQueryOwnership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TRIES: Final = 5
_FRESH_SECONDS: Final = 5.0
_STREAMS_AT_MOST: Final = 1000


class BigQueryTableReader(TableReader):
    """Reads by the Storage Read API, whose sessions show a table at the moment of their creation.

    Which commit that is the commit log says, read before and after: rows and commit log change in one transaction, so a table
    whose log is the same at both times is as its last commit left it at the moment between. Nothing is written: no table is claimed.

    Args:
        config: The target's settings.
        context: Whose tables.

    Raises:
        NeedsUserError: When the mode's tables cannot be compared, a library is missing, or there are no credentials.
    """

    def __init__(self, config: BigQueryConfig, context: DeltaTargetContext) -> None:
        _refuse_mode(config)
        self._config = config
        self._context = context
        self._layout = MergeFlushLayout(config) if config.mode is Mode.MERGE_FLUSH else TableLayout(config)
        clients = Clients(config)
        self._jobs = Jobs(clients.bigquery, config, context.metrics, lambda: context.is_stopping)
        self._catalogue = Catalogue(clients.bigquery, self._jobs, config)
        self._asked: dict[TableId, tuple[float, TableProgress | None]] = {}

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's newest commit said a few seconds ago: each answer is a query that is billed."""
        asked_at, progress = self._asked.get(table, (-_FRESH_SECONDS, None))
        if time.monotonic() - asked_at >= _FRESH_SECONDS:
            state = self._state(table)
            progress = None if state is None or state.dropped else state.progress
            self._asked[table] = time.monotonic(), progress
        return progress

    def open(self, schema: TableSchema) -> TableVersion:
        """The table as it is now; its rows can be read for six hours."""
        table = schema.table
        for _ in range(_TRIES):
            state = self._state(table)
            found = self._catalogue.find(self._ref(table).id, table)
            if state is None or state.progress is None or state.dropped or found is None:
                raise _missing(table, self._ref(table).id)
            form = self._form(schema, found, state)
            rows = self._rows(schema, found, form)
            if self._state(table) == state:
                return TableVersion(str(state.revision), state.progress, form, rows)
        raise RetryableError(
            f"{self._ref(table).id} was written each time that it was to be read",
            code="RPL-6573",
            table=str(table),
            hint="give the command again; a longer `loadInterval` leaves more time between two commits",
        )

    def _form(self, schema: TableSchema, found: TableInfo, state: TableState) -> pa.Schema:
        """The form of the table's columns.

        Raises:
            SchemaDriftError: When they are not those of the schema, or are being changed.
            NeedsUserError: When one does not hold the source's values as they are.
        """
        if state.altering is not None:
            raise altered(schema, "is in the middle of a change of structure")
        if problem := schema_mismatch(self._layout.target_fields(schema, found.fields), found):
            raise altered(schema, problem)
        columns = dict(zip(schema.names, self._layout.source_fields(schema, found.fields), strict=True))
        if wrong := [name for name, column in columns.items() if inexact(column)]:
            raise NeedsUserError(
                f"{', '.join(wrong)}: BigQuery's ARRAY and JSON do not keep values as the source has them, so they cannot be compared",
                code="RPL-6572",
                table=str(schema.table),
                hint="leave such tables out; or set `arrays` to wrapped and `json` to string, drop the table at BigQuery, and it is"
                " copied again",
            )
        forms = {name: form_of(schema[name].type, found.column(c.name) or c) for name, c in columns.items()}
        if wrong := [name for name, form in forms.items() if form is None]:
            raise altered(schema, f"has columns of another type than the source's: {', '.join(wrong)}")
        return pa.schema([pa.field(name, form) for name, form in forms.items()])

    def _rows(self, schema: TableSchema, found: TableInfo, form: pa.Schema) -> DataFrame:
        names = column_names(schema, self._config.metadata_columns)
        wanted = {name: _found(found, new) for name, new in names.items()}
        deleted = _found(found, IS_DELETED) if self._config.soft_deletes else ""
        selected = [*wanted.values(), _found(found, SEQUENCE), *([deleted] if deleted else [])]
        session = self._session(schema.table, found, selected)
        read = StreamRows(
            self._config, schema, tuple(wanted.values()), form, bytes(session.arrow_schema.serialized_schema), deleted
        )
        return chunk_dataframe(self._context.spark(), schema, chunks_of(session), read, read.read_form)

    def _session(self, table: TableId, found: TableInfo, columns: list[str]) -> Any:
        from google.cloud.bigquery_storage_v1 import types

        ref, needed = self._ref(table), found.required_filter
        options = types.ReadSession.TableReadOptions(
            selected_fields=columns,
            row_restriction="" if needed is None else every_row(needed, quoted(needed.name)),
        )
        wanted = types.ReadSession(table=ref.path, data_format=types.DataFormat.ARROW, read_options=options)
        client = read_client(self._config)

        def ask() -> Any:
            return client.create_read_session(
                parent=f"projects/{self._config.project}",
                read_session=wanted,
                max_stream_count=_STREAMS_AT_MOST,
                retry=None,
                timeout=60.0,
            )

        try:
            return self._jobs.request(f"opening {ref.id} to read it", table, ask, place=ref.id, service=Service.READS)
        finally:
            client.transport.close()

    def _state(self, table: TableId) -> TableState | None:
        """What the commit log says; None where there is no dataset of the replicator's, nor a table.

        Raises:
            NeedsUserError: When the table is another replicator's, or another table's.
        """
        ref = self._ref(table)
        ownership = BigQueryOwnership(table, self._context, ref.id)
        rows: list[Any] = []
        if self._catalogue.has_dataset(ref, table):
            rows = self._jobs.read(select(ref), f"reading the commits of {ref.id}", table)
        state = read_rows(rows, self._context.read_offset)
        if state.record is None and self._catalogue.find(ref.id, table) is None:
            return None
        ownership.check_read(state.record)
        return state

    def _ref(self, table: TableId) -> TableRef:
        return TableRef.of(table, self._config)


def _found(found: TableInfo, name: str) -> str:
    """The name of a column as the table has it, in its own case."""
    column = found.column(name)
    return name if column is None else column.name


def _refuse_mode(config: BigQueryConfig) -> None:
    why = ""
    if config.mode is Mode.CDC:
        why = "in mode cdc BigQuery applies changes when it wants, before and after their progress is known"
    elif config.mode is Mode.MERGE_FLUSH and not (config.upsert_enabled and config.delete_enabled):
        why = "without `upsertEnabled` and `deleteEnabled` the tables hold other rows than the source"
    if why:
        raise NeedsUserError(
            f"the tables cannot be compared: {why}",
            code="RPL-6570",
            hint="compare them by queries of your own; `replicator table resync NAME TABLE --in-place` copies a table again",
        )


def _missing(table: TableId, where: str) -> NeedsUserError:
    return NeedsUserError(
        f"there is no table {where}, or no copy in it",
        code="RPL-6574",
        table=str(table),
        hint="copy it again by `replicator table resync NAME TABLE --in-place`",
    )
