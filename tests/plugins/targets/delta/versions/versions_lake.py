"""A lake in the mode `scd2`, read by `deltalake`, which shares no code with the replicator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow.parquet as pq

from replicator_sdk.schema import TableId
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class VersionsLake(Lake):
    """Its rows are the current versions."""

    def __init__(self, folder: Path, spark: SparkSession, **settings: Any) -> None:
        super().__init__(folder, spark, mode="scd2", **settings)

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """The current versions, with all columns."""
        return [row for row in self.versions(table) if row["_is_current"]]

    def versions(self, table: TableId) -> list[dict[str, Any]]:
        """All versions, with all columns."""
        found: list[dict[str, Any]] = self.arrow(table).to_pylist()
        return found

    def files(self, table: TableId) -> list[tuple[int, int]]:
        """For each live data file how many rows it was written with, and how many of them as current versions."""
        opened = deltalake.DeltaTable(str(self.path(table)))
        fields = json.loads(opened.schema().to_json())["fields"]
        (physical,) = (
            f["metadata"]["delta.columnMapping.physicalName"] for f in fields if f["name"] == "_end_sequence_num"
        )
        columns = [pq.read_table(uri, columns=[physical]).column(0) for uri in opened.file_uris()]
        return [(len(column), column.null_count) for column in columns]
