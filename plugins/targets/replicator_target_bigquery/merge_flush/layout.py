"""Target tables of mode `merge-flush`: they have a column for the key, and partitions of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.merge_flush.intermediate.key_column import key_array, key_field
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout

if TYPE_CHECKING:
    from google.cloud import bigquery


@dataclass(frozen=True)
class MergeFlushLayout(TableLayout):
    """What target tables of mode `merge-flush` look like. Picklable, safe from any thread."""

    def own_fields(self, schema: TableSchema) -> list[Field]:
        """The replicator's own columns, the key among them where the settings name its column."""
        own, column = super().own_fields(schema), self.config.kafka_key_field_name
        return [*own, key_field(schema, column)] if column and schema.primary_key else own

    def snapshot_values(self, schema: TableSchema, columns: Mapping[str, pa.Array], size: int) -> dict[str, pa.Array]:
        """The values of the replicator's own columns, that of the key among them."""
        values, column = super().snapshot_values(schema, columns, size), self.config.kafka_key_field_name
        return values | {column: key_array(schema, columns)} if column and schema.primary_key else values

    def partition(self, table: bigquery.Table, schema: TableSchema) -> None:
        """Partition by `timestampPartitionFieldName`, else by ingestion time."""
        from google.cloud import bigquery

        if self.config.timestamp_partition_field_name:
            column = self.config.timestamp_partition_field_name
            self.partition_by(table, schema, "timestampPartitionFieldName", column)
        else:
            table.time_partitioning = bigquery.TimePartitioning(type_=self.config.partition_type.value)
