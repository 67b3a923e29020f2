"""The mode `scd2` beside other programs: the queries of the page in readers that share no code with the replicator, and Spark's VACUUM."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import duckdb
import pyarrow as pa
import pytest
from duckdb_extensions import import_extension  # type: ignore[import-untyped]

from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.versions.versions_lake import VersionsLake
from tests.plugins.targets.snapshot_rows import SnapshotRows
from tests.plugins.targets.version_model import timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAGE = Path(__file__).parents[5] / "docs" / "target-delta.md"
_CHUNKS = [SnapshotChunk(0, {}), SnapshotChunk(1, {})]


def _queries() -> list[str]:
    """Those of the page: the rows of a moment, the rows of now, the history of one row."""
    (_, section) = _PAGE.read_text("utf-8").split("\n### Every version\n")
    found = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1].splitlines()


@pytest.mark.parametrize("reader", ["deltalake", "duckdb"])
def test_the_queries_of_the_page_are_answered(tmp_path: Path, spark: SparkSession, reader: str) -> None:
    lake, consumer = (made := VersionsLake(tmp_path / "lake", spark)), made.consumer()
    days = [int(datetime(2026, month, 1, tzinfo=UTC).timestamp() * 1_000_000) for month in (4, 5, 6)]
    consumer.apply_batch(timed(1, [insert(row(7, "April")), insert(row(8, "April"))], days[0], days[0]))
    consumer.apply_batch(timed(2, [update(row(7, "first of May")), update(row(7, "May"))], days[1], days[1]))
    consumer.apply_batch(timed(3, [delete(row(8)), update(row(7, "June"))], days[2], days[2]))
    moment, now, history = (_answer(lake, reader, query) for query in _queries())
    assert sorted(moment.column("name").to_pylist()) == ["April", "May"]
    assert now.column("name").to_pylist() == ["June"]
    assert history.column("name").to_pylist() == ["April", "first of May", "May", "June"]


def _answer(lake: VersionsLake, reader: str, query: str) -> pa.Table:
    """What the reader answers; DuckDB in a session of another zone than UTC, where a moment means the same."""
    path = str(lake.path(TABLE))
    if reader == "deltalake":
        return pa.table(
            deltalake.QueryBuilder().register("customers", deltalake.DeltaTable(path)).execute(query).read_all()
        )
    import_extension("delta")
    with duckdb.connect() as connection:
        connection.execute("LOAD delta")
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        connection.execute(f"CREATE VIEW customers AS SELECT * FROM delta_scan('{path}')")
        return connection.execute(query).to_arrow_table()


def test_vacuum_by_spark_leaves_a_copy_that_is_not_finished(tmp_path: Path, spark: SparkSession) -> None:
    """Spark is asked where a table has a change data feed; it does not know of files that no version of the table has."""
    lake = VersionsLake(tmp_path / "lake", spark, vacuumRetentionHours=1)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    spark.sql(f"ALTER TABLE delta.`{lake.path(TABLE)}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    consumer.begin_snapshot(KEYED, "plan", at(2))
    consumer.load_chunks(KEYED, "plan", _CHUNKS[:1], SnapshotRows(KEYED, [(1, "b", None)]))
    for file in lake.path(TABLE).glob("*.parquet"):
        os.utime(file, (0, 0))
    lake.maintain(TABLE, "vacuum")
    consumer.load_chunks(KEYED, "plan", _CHUNKS[1:], SnapshotRows(KEYED, [(2, "a", None)]))
    consumer.finish_snapshot(KEYED, "plan", at(2))
    assert sorted((one["id"], one["name"], one["_is_current"]) for one in lake.versions(TABLE)) == [
        (1, "a", False),
        (1, "b", True),
        (2, "a", True),
    ]
