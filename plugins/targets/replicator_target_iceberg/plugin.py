"""The target `iceberg`: describes itself, asks for Spark with Iceberg, makes consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import Configurer, DeltaTargetContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.dataset import Dataset, path_dataset
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.schema import TableId
from replicator_sdk.target import DeltaTarget, EventConsumer, TableReader
from replicator_target_iceberg.assessment import IcebergAssessor
from replicator_target_iceberg.config import CatalogType, IcebergConfig, Mode
from replicator_target_iceberg.naming import identifier

ICEBERG_PACKAGES: Final = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",)


class IcebergTarget(DeltaTarget[IcebergConfig]):
    """Keeps one Iceberg table for each source table, merged to its latest state, or with every change as a row."""

    name: ClassVar[str] = "iceberg"
    title: ClassVar[str] = "Apache Iceberg tables, in a catalog of yours"
    config_type: ClassVar[type[PluginConfig]] = IcebergConfig
    takes_lane: ClassVar[bool] = True
    copies_beside: bool = True

    def configure(self, configurer: Configurer) -> None:
        """Ask for Spark with Iceberg's runtime."""
        configurer.require_spark(packages=ICEBERG_PACKAGES)

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: the table's folder for a catalog of folders, else its name in the catalog."""
        name = identifier(table)
        if self.config.catalog_type is CatalogType.HADOOP:
            return path_dataset(f"{self.config.warehouse.rstrip('/')}/{name.namespace}/{name.name}")
        return Dataset(f"iceberg:{self.config.catalog}", str(name))

    def create_table_assessor(self) -> TableAssessor:
        """A judge of settings and schemas; needs no Spark."""
        return IcebergAssessor(self.config)

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        """A consumer on the run's Spark session; with `commitIntervalMs` one that takes changes ahead of their commit."""
        from replicator_target_iceberg.consumer import IcebergConsumer
        from replicator_target_iceberg.coordinator.consumer import CoordinatedConsumer

        kind = CoordinatedConsumer if self.config.commit_interval_ms else IcebergConsumer
        return kind(self.config, context)

    def create_table_reader(self, context: DeltaTargetContext) -> TableReader | None:
        """A reader on the session of the context; None in the mode `append`, whose rows are changes."""
        from replicator_target_iceberg.table_reader import IcebergTableReader

        return None if self.config.mode is Mode.APPEND else IcebergTableReader(self.config, context)

    @property
    def maintenance_tasks(self) -> Sequence[MaintenanceTask]:
        """Compaction, the expiry of snapshots, and the removal of orphan files."""
        from replicator_target_iceberg.maintenance.steps import tasks

        return tasks(self.config)

    def maintain_table(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        """Do one step on the run's Spark session."""
        from replicator_target_iceberg.maintenance.steps import maintain

        return maintain(self.config, context, task.name, table)
