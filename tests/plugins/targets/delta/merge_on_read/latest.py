"""A lake in the mode `merge-on-read`, read by `deltalake` and DuckDB's SQL, which share no code with the replicator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa

from replicator_sdk.schema import TableId
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.latest import latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LatestLake(Lake):
    """Its rows are the latest of each key, without the deleted ones."""

    def __init__(self, folder: Path, spark: SparkSession, **settings: Any) -> None:
        super().__init__(folder, spark, mode="merge-on-read", **settings)

    def rows(self, table: TableId) -> list[dict[str, Any]]:
        """The rows that readers see, with all columns."""
        return read_latest(self.path(table))

    def properties(self, table: TableId) -> dict[str, str]:
        """The table's properties."""
        return dict(deltalake.DeltaTable(str(self.path(table))).metadata().configuration)


def read_latest(path: Path) -> list[dict[str, Any]]:
    """The rows of the table at `path` that readers see; all of them where its properties name no keys."""
    table = deltalake.DeltaTable(str(path))
    history = pa.table(deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all())
    every, properties = history.to_pylist(), dict(table.metadata().configuration)
    return [every[place] for place in latest(history, properties)] if "primary_key" in properties else every
