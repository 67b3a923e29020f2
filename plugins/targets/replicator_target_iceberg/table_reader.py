"""Reads tables beside the run that writes them, one snapshot at a time."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.merge_on_read import free_name, latest_rows
from replicator_sdk.merge_on_read.keys import WrittenKeys
from replicator_sdk.row_versions import END_SEQUENCE
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import TableProgress, TableReader, TableVersion
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.jvm import Catalog, java_errors
from replicator_target_iceberg.log.version import Version, read_version
from replicator_target_iceberg.naming import identifier
from replicator_target_iceberg.ownership import IcebergOwnership
from replicator_target_iceberg.schema.table_form import VERSION_NAMES, TableForm, form_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = ("_file", "_pos")
"""Iceberg's hidden columns that say where a row is stored. A row that is written again is stored in another file."""


class IcebergTableReader(TableReader):
    """Reads by Iceberg's own library in Spark; `expire` leaves what it reads for `snapshotRetentionHours`, within `snapshotsKept`.

    Not for tables of the mode `append`. Its connection to the catalog is given back when no one holds the reader any more.

    Args:
        config: The target's settings.
        context: Whose tables.
    """

    def __init__(self, config: IcebergConfig, context: DeltaTargetContext) -> None:
        self._config, self._context = config, context
        self._opened: Catalog | None = None

    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's newest snapshot with a record says."""
        version = self._version(table)
        return None if version is None else self._record(table, version).progress

    def open(self, schema: TableSchema) -> TableVersion:
        """The current snapshot; its columns are looked up by the names of the source."""
        version = self._version(schema.table)
        progress = None if version is None else self._record(schema.table, version).progress
        if version is None or progress is None:
            raise NeedsUserError(
                f"there is no table {self._name(schema.table)}",
                code="RPL-3440",
                table=str(schema.table),
                hint="copy it again by `replicator table resync NAME TABLE`",
            )
        form = form_of(self._config, schema)
        if form.keys is not None and form.keys.tombstone_is_sent:
            raise _hides_rows(schema, form.keys)
        if not version.fits(schema, form):
            raise SchemaDriftError(
                "the table at the target has other columns or types than the source's",
                code="RPL-6431",
                table=str(schema.table),
                position=str(progress.position),
                hint="give the command again once the run has applied the change of structure; where no run can, copy the table"
                " again by `replicator table resync NAME TABLE`",
            )
        columns = pa.schema([pa.field(name, _plain(version.layout.field(name).type)) for name in schema.names])
        return TableVersion(str(version.snapshot), progress, columns, self._rows(schema, version, form))

    def _rows(self, schema: TableSchema, version: Version, form: TableForm) -> DataFrame:
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as sql

        spark: Any = self._context.spark()
        jvm = self._catalog.jvm
        with java_errors(f"read the table {self._name(schema.table)}"):
            # By the library's table and not by a name in Spark: the session need not know the catalog, nor its passwords.
            table = jvm[".BaseTable"](version.operations, self._name(schema.table))
            loaded = jvm[".spark.SparkTableUtil"].loadTable(spark._jsparkSession, table, version.snapshot)  # noqa: SLF001
        rows: DataFrame = DataFrame(loaded, spark)
        written = sql.xxhash64(*(rows[name] for name in _PLACE))
        if form.keys is not None:
            name = free_name(rows.columns, "_written")
            rows = latest_rows(rows.withColumn(name, written), form.keys.definition)
            return rows.select(*(rows[_quoted(column)] for column in (*schema.names, name)))
        if form.has_versions:
            rows = rows.where(rows[_quoted(VERSION_NAMES[END_SEQUENCE])].isNull())
        return rows.select(*(rows[_quoted(name)] for name in schema.names), written)

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = Catalog(self._context.spark(), self._config)
            weakref.finalize(self, self._opened.close)
        return self._opened

    def _version(self, table: TableId) -> Version | None:
        operations = self._catalog.operations(identifier(table))
        if operations is None:
            return None
        with java_errors(f"read the table {self._name(table)}"):
            return read_version(self._catalog.jvm, operations, table, self._config.branch)

    def _record(self, table: TableId, version: Version) -> TableRecord:
        """What the snapshot says.

        Raises:
            NeedsUserError: RPL-3426 when how far it is was expired, RPL-3442 when that is not in the branch.
        """
        stored = version.stored
        found = None if stored is None else TableRecord.from_json(stored, self._context.read_offset)
        record = IcebergOwnership(table, self._context, self._name(table)).check_read(found)
        if version.later is None:
            raise version.progress_unknown(table)
        return record

    def _name(self, table: TableId) -> str:
        return f"{self._config.catalog}.{identifier(table)}"


def _hides_rows(schema: TableSchema, keys: WrittenKeys) -> NeedsUserError:
    return NeedsUserError(
        f"readers of the table do not see the rows that the source itself marks as deleted by column {keys.tombstone!r},"
        " so it does not equal the source's",
        code="RPL-3445",
        table=str(schema.table),
        hint="compare tables in the mode merge-on-read only where `tombstoneKey` names no column of the source",
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """The same type without Iceberg's identities of nested fields, and with none required: as rows of Spark come."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, _plain(inner.type)) for inner in kind])
    return kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
