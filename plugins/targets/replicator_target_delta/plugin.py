"""The target `delta`: describes itself, asks for Spark with Delta, makes consumers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from replicator_sdk.config import PluginConfig
from replicator_sdk.context import Configurer, DeltaTargetContext
from replicator_sdk.discovery.assessment import TableAssessor
from replicator_sdk.discovery.dataset import Dataset, path_dataset
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.schema import TableId
from replicator_sdk.target import DeltaTarget, EventConsumer, TableReader
from replicator_target_delta.assessment import DeltaAssessor
from replicator_target_delta.config import DeltaConfig
from replicator_target_delta.location import (
    absolute,
    is_on_cloud_storage,
    is_on_disk,
    is_on_object_store,
    is_on_s3,
    table_path,
)

# Both are named because jars from the local cache come without what they depend on.
DELTA_PACKAGES: Final = ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
_DELTA: Final = "spark.databricks.delta"
# The defaults for local files go through Hadoop's FileContext, which starts sixteen processes a commit to look for links.
_ON_DISK: Final[Mapping[str, str]] = {
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# Clean-up writes no commits, since these would be without condition.
_ON_OBJECT_STORE: Final[Mapping[str, str]] = {f"{_DELTA}.vacuum.logging.enabled": "false"}
_ON_S3: Final[Mapping[str, str]] = {
    # A listing begins at the newest checkpoint, not at the first commit that is kept.
    "spark.hadoop.delta.enableFastS3AListFrom": "true",
}
# Google's connector for Hadoop repeats a request ten times by default: a wrong address or key would be an error after minutes.
_ON_CLOUD_STORAGE: Final[Mapping[str, str]] = {"spark.hadoop.fs.gs.http.max.retry": "2"}


def session_settings(cores: int, path: str) -> dict[str, str]:
    """Spark settings the target needs for tables below `path`, and sizes for `cores`; the pipeline's own win over them."""
    return {
        **(_ON_DISK if is_on_disk(absolute(path)) else {}),
        **(_ON_OBJECT_STORE if is_on_object_store(absolute(path)) else {}),
        **(_ON_S3 if is_on_s3(absolute(path)) else {}),
        **(_ON_CLOUD_STORAGE if is_on_cloud_storage(absolute(path)) else {}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Defaults are for clusters: 50 partitions to read a log of a few kilobytes.
        f"{_DELTA}.snapshotPartitions": str(max(2, min(cores, 8))),
        # A commit's checksum is derived from the one before; recomputing it to compare costs a second each time.
        f"{_DELTA}.incremental.commit.verify": "false",
        f"{_DELTA}.versionChecksum.forcedValidationInterval": "-1",
        # Nor does it list a small table's files: the first commit of a session would run Spark's planner for that list.
        f"{_DELTA}.allFilesInCrc.enabled": "false",
    }


class DeltaLakeTarget(DeltaTarget[DeltaConfig]):
    """Keeps one Delta table for each source table, merged to its latest state."""

    name: ClassVar[str] = "delta"
    title: ClassVar[str] = "Delta Lake tables, written by Spark"
    config_type: ClassVar[type[PluginConfig]] = DeltaConfig
    takes_lane: ClassVar[bool] = True
    copies_beside: bool = True

    def configure(self, configurer: Configurer) -> None:
        """Ask for Spark with Delta's jars and settings."""
        configurer.require_spark(packages=DELTA_PACKAGES, conf=session_settings(os.cpu_count() or 2, self.config.path))

    def dataset(self, table: TableId) -> Dataset:
        """The name in lineage: the folder of the Delta table."""
        return path_dataset(table_path(self.config.path, table))

    def create_table_assessor(self) -> TableAssessor:
        """A judge of settings and schemas; needs no Spark."""
        return DeltaAssessor(self.config)

    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        """A consumer on the run's Spark session."""
        from replicator_target_delta.consumer import DeltaConsumer

        return DeltaConsumer(self.config, context)

    def create_table_reader(self, context: DeltaTargetContext) -> TableReader:
        """A reader on the session of the context."""
        from replicator_target_delta.table_reader import DeltaTableReader

        return DeltaTableReader(self.config, context)

    @property
    def maintenance_tasks(self) -> Sequence[MaintenanceTask]:
        """Compaction, vacuum, and checkpoints with the clean-up of the log."""
        from replicator_target_delta.maintenance.maintenance import tasks

        return tasks(self.config)

    def maintain_table(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        """Do one step on the run's Spark session."""
        from replicator_target_delta.maintenance.maintenance import maintain

        return maintain(self.config, context, task.name, table)
