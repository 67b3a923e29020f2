"""The Spark sessions and the cluster of the tests do what the tests rely on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.services.spark import INTERPRETER, StandaloneCluster

_DRIVER = """
import json, os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.config(map=json.loads(sys.argv[1])).getOrCreate()

def where(batches):
    import pyarrow, replicator_sdk
    for batch in batches:
        size = batch.num_rows
        yield pyarrow.RecordBatch.from_pydict({"parent": [os.getppid()] * size, "rows": [size] * size})

frame = spark.range(0, 1000, numPartitions=8).mapInArrow(where, "parent bigint, rows bigint")
frame.write.format("delta").save(sys.argv[2])
print(json.dumps({
    "driver": os.getpid(),
    "executors": [e.host() + str(e.port()) for e in spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()],
    "parents": [row.parent for row in spark.read.format("delta").load(sys.argv[2]).select("parent").distinct().collect()],
}))
spark.stop()
"""


def test_shared_session_merges_into_a_delta_table_another_reader_understands(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = f"{tmp_path}/table"
    spark.range(10).selectExpr("id", "'old' AS v").write.format("delta").save(place)
    spark.sql(
        f"MERGE INTO delta.`{place}` t USING (SELECT 9 AS id, 'new' AS v UNION ALL SELECT 10, 'new') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = DeltaTable(place).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["v"]) for row in rows) == [(i, "old") for i in range(9)] + [(9, "new"), (10, "new")]


def test_shared_session_runs_python_with_the_interpreter_of_the_tests(spark: SparkSession) -> None:
    def interpreter(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [sys.executable]})

    rows = spark.range(1).mapInArrow(interpreter, "path string").collect()
    assert [row.path for row in rows] == [sys.executable]


def test_cluster_runs_python_on_two_workers_outside_the_driver(
    spark_cluster: StandaloneCluster, tmp_path: Path
) -> None:
    assert spark_cluster.alive() == 2
    driver = subprocess.run(
        [sys.executable, "-c", _DRIVER, json.dumps(spark_cluster.settings()), f"{tmp_path}/table"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **INTERPRETER},
    )
    assert driver.returncode == 0, driver.stderr[-4000:]
    answer = json.loads(driver.stdout.splitlines()[-1])
    assert answer["driver"] not in answer["parents"]
    assert len(set(answer["parents"])) == 2
    assert len(answer["executors"]) == 3  # two, and the driver
