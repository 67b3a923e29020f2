"""The columns, clustering and partitions of a target table, from its source's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from replicator_sdk.config import OutOfRange
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, Arrays, BigQueryConfig, Json
from replicator_target_bigquery.schema.encoding import RowEncoding
from replicator_target_bigquery.schema.fields import EXACT, Field, Forms, field_of
from replicator_target_bigquery.schema.names import column_name, column_names
from replicator_target_bigquery.schema.width import require_width

if TYPE_CHECKING:
    from google.cloud import bigquery

_MOST_CLUSTERED: Final = 4


@dataclass(frozen=True)
class TableLayout:
    """What target tables look like; a mode overrides what its tables have besides. Picklable, safe from any thread.

    Attributes:
        config: The settings.
    """

    config: BigQueryConfig

    def target_fields(self, schema: TableSchema, present: Sequence[Field] = ()) -> tuple[Field, ...]:
        """The columns of a target table: the replicator's own, then the source's.

        Args:
            schema: The table.
            present: The columns that it has: arrays and JSON keep the forms they have there.

        Raises:
            NeedsUserError: When two names become one, or there are more columns than BigQuery's tables have.
        """
        made = (*self.own_fields(schema), *self.source_fields(schema, present))
        require_width(made, "the table", schema.table)
        return made

    def source_fields(self, schema: TableSchema, present: Sequence[Field] = ()) -> tuple[Field, ...]:
        """The columns of a target table that come from the source; `present` as for `target_fields`."""
        names, strict = column_names(schema, self.config.metadata_columns), self.required(schema)
        there = {f.name.lower(): f for f in present}
        return tuple(
            self.column(
                c,
                names[c.name],
                mode="NULLABLE" if c.nullable or c.name not in strict else "REQUIRED",
                is_key=c.name in schema.primary_key,
                like=there.get(names[c.name].lower()),
            )
            for c in schema.columns
        )

    def column(
        self, column: Column, name: str, *, mode: str = "NULLABLE", is_key: bool = False, like: Field | None = None
    ) -> Field:
        """One of the source's columns at the target, under the name `name`.

        Args:
            column: The column.
            name: Its name at the target.
            mode: NULLABLE or REQUIRED.
            is_key: Whether it is in the key: then it has the form that holds every value as it is.
            like: The column that exists; arrays and JSON keep its form.
        """
        config = self.config
        chosen = Forms(config.arrays is Arrays.NATIVE, config.json_columns is Json.JSON)
        return field_of(name, column.type, mode=mode, forms=EXACT if is_key else chosen, like=None if is_key else like)

    def encoding(self, table: TableId, fields: Sequence[Field]) -> RowEncoding:
        """How rows of a table at the source are encoded for a table with these columns."""
        left_out = self.config.out_of_range is not OutOfRange.FAIL
        return RowEncoding(str(table), {f.name: f for f in fields}, left_out)

    def own_fields(self, schema: TableSchema) -> list[Field]:  # noqa: ARG002 - for modes whose columns depend on it
        """The replicator's own columns."""
        return [Field(SEQUENCE, "INT64"), *([Field(IS_DELETED, "BOOL")] if self.config.soft_deletes else [])]

    def required(self, schema: TableSchema) -> Collection[str]:
        """The source's columns that are declared NOT NULL where the source declares them so."""
        return set(schema.names)

    def snapshot_values(self, schema: TableSchema, columns: Mapping[str, pa.Array], size: int) -> dict[str, pa.Array]:  # noqa: ARG002 - likewise
        """The values of the replicator's own columns in rows of a snapshot.

        Args:
            schema: The table.
            columns: The source's columns of the rows.
            size: How many rows there are.
        """
        values: dict[str, pa.Array] = {SEQUENCE: pa.repeat(pa.scalar(0, pa.int64()), size)}
        if self.config.soft_deletes:
            values[IS_DELETED] = pa.repeat(pa.scalar(value=False), size)
        return values

    def define(self, table: bigquery.Table, schema: TableSchema) -> None:
        """Set clustering and partitions of a table that is about to be created.

        Raises:
            NeedsUserError: When the settings name a column that BigQuery cannot partition by.
        """
        table.clustering_fields = clustering(schema) or None
        self.partition(table, schema)

    def partition(self, table: bigquery.Table, schema: TableSchema) -> None:
        """Set the partitions of a table that is about to be created; raises as `define`."""
        if (column := self.config.partition_by.get(str(schema.table))) is not None:
            self.partition_by(table, schema, "partitionBy", column)

    def partition_by(self, table: bigquery.Table, schema: TableSchema, setting: str, column: str) -> None:
        """Partition a table by the source's column that `setting` names; raises as `define`."""
        from google.cloud import bigquery

        if column not in schema or field_of("p", schema[column].type).type not in {"DATE", "DATETIME", "TIMESTAMP"}:
            raise NeedsUserError(
                f"{setting} names {column!r}, which is no DATE, TIMESTAMP or DATETIME column",
                code="RPL-6522",
                table=str(schema.table),
                hint=f"name another column in `{setting}`, or none for this table",
            )
        table.time_partitioning = bigquery.TimePartitioning(
            type_=self.config.partition_type.value, field=column_name(column)
        )
        table.require_partition_filter = self.config.require_partition_filter


def clustering(schema: TableSchema) -> list[str]:
    """The first key columns that BigQuery can cluster by, four at most."""
    names = [column_name(c.name) for c in schema.key_columns() if field_of("k", c.type).clusters]
    return names[:_MOST_CLUSTERED]
