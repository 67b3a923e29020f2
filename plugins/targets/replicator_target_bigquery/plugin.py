"""The target `bigquery`: its description, assessor and consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.dataset import Dataset
from replicator_sdk.discovery.maintenance import AppliesHeld, MaintenanceReport, MaintenanceTask
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import DeltaTarget, EventConsumer, TableReader
from replicator_target_bigquery.config import BigQueryConfig, Mode


class BigQueryTarget(DeltaTarget[BigQueryConfig]):
    """Writes one BigQuery table for each source table, merged to its latest state."""

    name: ClassVar[str] = "bigquery"
    title: ClassVar[str] = "BigQuery tables, by load jobs and MERGE"
    config_type: ClassVar[type[PluginConfig]] = BigQueryConfig
    copies_other_columns_beside: ClassVar[bool] = False  # no transaction of BigQuery changes columns

    def __init__(self, config: BigQueryConfig) -> None:
        super().__init__(config)
        self.copies_beside = config.mode is not Mode.CDC  # BigQuery allows no TRUNCATE where changes are streamed

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: project, dataset and table."""
        from replicator_target_bigquery.sql.table_ref import TableRef

        return Dataset("bigquery", TableRef.of(table, self.config).id)

    def dataset_columns(self, schema: TableSchema) -> Mapping[str, str]:
        """The columns' names at BigQuery."""
        from replicator_target_bigquery.schema.names import column_name

        return {column.name: column_name(column.name) for column in schema.columns}

    def create_table_assessor(self) -> TableAssessor:
        """Checks credentials, bucket, datasets and schemas."""
        from replicator_target_bigquery.assessment.assessor import BigQueryAssessor

        return BigQueryAssessor(self.config)

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        """A consumer with connections of its own."""
        if self.config.mode is Mode.MERGE_FLUSH:
            from replicator_target_bigquery.merge_flush.consumer import create

            return create(self.config, context)
        if self.config.mode is Mode.CDC:
            from replicator_target_bigquery.cdc.consumer import CdcConsumer

            return CdcConsumer(self.config, context)
        from replicator_target_bigquery.batch.consumer import BatchMergeConsumer

        return BatchMergeConsumer(self.config, context)

    def create_table_reader(self, context: DeltaTargetContext) -> TableReader:
        """A reader of this replicator's tables, by the Storage Read API."""
        from replicator_target_bigquery.reading.table_reader import BigQueryTableReader

        return BigQueryTableReader(self.config, context)

    @property
    def maintenance_tasks(self) -> Sequence[MaintenanceTask]:
        """The commit logs; staged changes expire by themselves. A DELETE beside commits would have BigQuery cancel one of them."""
        return (MaintenanceTask("commits", 86400.0, AppliesHeld.ALL),)

    def maintain_table(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        """Delete old rows of the commit log in the table's dataset, unless that was done for another table today."""
        from replicator_target_bigquery.tables.pruning import prune_commits

        prune_commits(self.config, context, table, task.interval_seconds)
        return MaintenanceReport()
