"""A warehouse in the mode `merge-on-read`, and what the SDK's reader sees of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_sdk.merge_on_read import MergeOnReadDefinition, latest_rows
from replicator_sdk.schema import TableId
from replicator_target_iceberg.naming import identifier
from tests.plugins.targets.changes import TABLE
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LatestWarehouse(Warehouse):
    """`rows` are those that readers see, by DuckDB's SQL; `arrow` has all."""

    def __init__(self, folder: Path, spark: SparkSession, catalog_type: str = "hadoop", **settings: Any) -> None:
        super().__init__(folder, spark, catalog_type, mode="merge-on-read", **settings)

    def by_spark(self, table: TableId = TABLE) -> list[dict[str, Any]]:
        """The same by the SDK's reader, which is given nothing but the table's properties."""
        name = identifier(table)
        rows = self.spark().read.format("iceberg").load(str(self.folder / name.namespace / name.name))
        definition = MergeOnReadDefinition.from_properties(self.properties(table))
        return [found.asDict() for found in latest_rows(rows, definition).collect()]

    def names(self, table: TableId = TABLE) -> list[tuple[int, str]]:
        """Key and name of each row that readers see."""
        return sorted((one["id"], one["name"]) for one in self.rows(table))
