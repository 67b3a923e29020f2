"""A warehouse in the mode `scd2`, read by `pyiceberg`, which shares no code with the replicator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from replicator_sdk.schema import TableId
from tests.plugins.targets.changes import TABLE
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.plugins.targets.version_model import assert_in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class VersionsWarehouse(Warehouse):
    """Its rows are the current versions."""

    def __init__(self, folder: Path, spark: SparkSession, catalog_type: str = "hadoop", **settings: Any) -> None:
        super().__init__(folder, spark, catalog_type, mode="scd2", **settings)

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """The current versions, with all columns."""
        return [row for row in self.versions(table) if row.get("_is_current", True)]

    def versions(self, table: TableId = TABLE) -> list[dict[str, Any]]:
        """All versions, with all columns."""
        found: list[dict[str, Any]] = self.arrow(table).to_pylist()
        return found

    def history(self, *columns: str, table: TableId = TABLE) -> list[tuple[Any, ...]]:
        """Some columns of all versions by key and number, after the key, the number and the number that ended each."""
        found = self.versions(table)
        assert_in_order(found)
        names = ("id", "_sequence_num", "_end_sequence_num", *columns)
        return sorted((tuple(one[name] for name in names) for one in found), key=lambda one: one[:2])

    def names(self, table: TableId = TABLE) -> list[str]:
        """Of the live data files."""
        return [task.file.file_path.rpartition("/")[2] for task in self.table(table).scan().plan_files()]

    def files(self, table: TableId = TABLE) -> list[tuple[int, int]]:
        """For each live data file how many rows it was written with, and how many of them as current versions."""
        places = [task.file.file_path.removeprefix("file:") for task in self.table(table).scan().plan_files()]
        columns = [pq.read_table(place, columns=["_end_sequence_num"]).column(0) for place in places]
        return [(len(column), column.null_count) for column in columns]
