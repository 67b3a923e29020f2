"""Reads tables beside the run that writes them, one version at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.merge_on_read import free_name, latest_rows
from replicator_sdk.merge_on_read.keys import WrittenKeys
from replicator_sdk.row_versions import END_SEQUENCE
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import TableProgress, TableReader, TableVersion
from replicator_target_delta.config import IS_DELETED, DeltaConfig
from replicator_target_delta.jvm_classes import DELTA, JvmClasses
from replicator_target_delta.location import table_path
from replicator_target_delta.log.table_state import State
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.ownership import DeltaOwnership
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm, form_of
from replicator_target_delta.schema.types import logical_arrow_type, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VERSIONED = ("file_name", "row_index")
"""Of Spark's hidden column: where a row is stored. A row that is written again is stored in another file."""


class DeltaTableReader(TableReader):
    """Reads by Spark's Delta library and its time travel; a vacuum leaves what it reads for `vacuumRetentionHours`.

    Args:
        config: The target's settings.
        context: Whose tables.
    """

    def __init__(self, config: DeltaConfig, context: DeltaTargetContext) -> None:
        self._config = config
        self._context = context
        self._logs: dict[TableId, TableLog] = {}

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's newest commit says."""
        state = self._state(table)
        return None if state.version < 0 else self._record(table, state).progress

    def open(self, schema: TableSchema) -> TableVersion:
        """The newest version; its columns are looked up by the names of the source."""
        state = self._state(schema.table)
        progress = None if state.version < 0 else self._record(schema.table, state).progress
        if progress is None:
            raise NeedsUserError(
                f"there is no table at {self._path(schema.table)}",
                code="RPL-3414",
                table=str(schema.table),
                hint="copy it again by `replicator table resync NAME TABLE`",
            )
        form = form_of(self._config, schema)
        if form.keys is not None and form.keys.tombstone_is_sent:
            raise _hides_rows(schema, form.keys)
        if not TableDefinition(state.metadata).matches(schema, form):
            raise SchemaDriftError(
                "the table at the target has other columns or types than the source's",
                code="RPL-6408",
                table=str(schema.table),
                position=str(progress.position),
                hint="give the command again once the run has applied the change of structure; where no run can, copy the table"
                " again by `replicator table resync NAME TABLE`",
            )
        columns = pa.schema([pa.field(c.name, logical_arrow_type(spark_type(c.type))) for c in schema.columns])
        return TableVersion(str(state.version), progress, columns, self._rows(schema, state.version, form))

    def _rows(self, schema: TableSchema, version: int, form: TableForm) -> DataFrame:
        from pyspark.sql import functions as sql

        path, spark = self._path(schema.table), self._context.spark()
        _quieten(spark)
        reader = spark.read.format("delta").option("versionAsOf", str(version))
        rows = reader.load(path)
        place = rows.metadataColumn("_metadata")
        written = sql.xxhash64(*(place[part] for part in _VERSIONED))
        if form.keys is not None:
            name = free_name(rows.columns, "_written")
            rows = latest_rows(rows.withColumn(name, written), form.keys.definition)
            return rows.select(*(rows[_quoted(column)] for column in schema.names), rows[_quoted(name)])
        if form.has_versions:
            rows = rows.where(rows[_quoted(form.names[END_SEQUENCE])].isNull())
        if marked := form.names.get(IS_DELETED):
            rows = rows.where(~sql.coalesce(rows[_quoted(marked)], sql.lit(False)))
        return rows.select(*(rows[_quoted(name)] for name in schema.names), written)

    def _state(self, table: TableId) -> State:
        if table not in self._logs:
            self._logs[table] = TableLog(self._context.spark(), self._path(table), table)
        return self._logs[table].begin().state

    def _record(self, table: TableId, state: State) -> TableRecord:
        """What the commit says."""
        stored: Any = state.stored
        record = None if stored is None else TableRecord.from_json(stored, self._context.read_offset)
        return DeltaOwnership(table, self._context, self._path(table)).check_read(record)

    def _path(self, table: TableId) -> str:
        return table_path(self._config.path, table)


def _hides_rows(schema: TableSchema, keys: WrittenKeys) -> NeedsUserError:
    return NeedsUserError(
        f"readers of the table do not see the rows that the source itself marks as deleted by column {keys.tombstone!r},"
        " so it does not equal the source's",
        code="RPL-3418",
        table=str(schema.table),
        hint="compare tables in the mode merge-on-read only where `tombstoneKey` names no column of the source",
    )


def _quieten(spark: SparkSession) -> None:
    """Keep Delta from logging an error each time that a file with deleted rows is read, which it reads rightly."""
    classes = JvmClasses.of(spark)
    off = classes["org.apache.logging.log4j.Level"].OFF
    classes["org.apache.logging.log4j.core.config.Configurator"].setLevel(f"{DELTA}.DeltaParquetFileFormat", off)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
