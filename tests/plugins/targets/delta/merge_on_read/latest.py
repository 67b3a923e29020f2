"""A lake in the mode `merge-on-read`, read by `deltalake` and DuckDB's SQL, which share no code with the replicator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pyarrow as pa

from replicator_sdk.schema import TableId
from tests.plugins.targets.delta.lake import Lake

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


def latest(rows: pa.Table, properties: dict[str, str]) -> list[int]:
    """The places of the latest rows of each key that are not deleted, by what the seed says of a table's keys."""
    keys = ", ".join(map(_quoted, json.loads(properties["primary_key"])))
    order = ", ".join(f"{_quoted(name)} DESC NULLS LAST" for name in json.loads(properties["watermark_key"]))
    tombstone, value = properties["tombstone_key"], properties.get("tombstone_string_key_value")
    column = _quoted(tombstone)
    if pa.types.is_boolean(rows.schema.field(tombstone).type):
        deleted = f"coalesce({column}, false)"
    else:
        deleted = f"{column} IS NOT NULL" if value is None else f"coalesce({column} = $value, false)"
    numbered = rows.append_column("__place", pa.array(range(rows.num_rows), pa.int64()))
    connection = duckdb.connect()
    connection.register("numbered", numbered)
    found = connection.execute(
        f"SELECT __place FROM (SELECT __place, {deleted} AS gone, row_number() OVER (PARTITION BY {keys} ORDER BY {order}, "
        f"{deleted} DESC) AS nth FROM numbered) WHERE nth = 1 AND NOT gone",
        {} if value is None else {"value": value},
    ).to_arrow_table()
    return [int(place) for place in found.column(0).to_pylist()]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
