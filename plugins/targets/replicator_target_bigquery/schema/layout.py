"""The columns, clustering and partitions of a target table, from its source's schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, BigQueryConfig
from replicator_target_bigquery.schema.fields import Field, field_of
from replicator_target_bigquery.schema.names import column_name, column_names

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

    def target_fields(self, schema: TableSchema) -> tuple[Field, ...]:
        """The columns that a new target table gets: the replicator's own, then the source's."""
        return (*self.own_fields(schema), *self.source_fields(schema))

    def source_fields(self, schema: TableSchema) -> tuple[Field, ...]:
        """The columns of a target table that come from the source."""
        names, strict = column_names(schema, self.config.metadata_columns), self.required(schema)
        return tuple(
            field_of(names[c.name], c.type, mode="NULLABLE" if c.nullable or c.name not in strict else "REQUIRED")
            for c in schema.columns
        )

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
