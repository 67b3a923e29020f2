"""On S3 a version belongs to the run that wrote it first; one program shows all scenes, since each session of Spark costs seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_target_delta.ddl.table_folder import name_client
from replicator_target_delta.location import is_on_s3
from replicator_target_delta.plugin import session_settings
from tests.services.s3.server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[5]


@pytest.fixture(scope="module")
def found(s3_server: S3Server) -> dict[str, Any]:
    """What happened in the scenes of `s3_commits.py`."""
    command = [sys.executable, "-m", "tests.plugins.targets.delta.log.s3_commits"]
    ended = subprocess.run(
        [*command, s3_server.endpoint, s3_server.bucket()],
        env={**os.environ, **s3_server.environment},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    line = next(line for line in ended.stdout.splitlines() if line.startswith("found "))
    answer: dict[str, Any] = json.loads(line.removeprefix("found "))
    return answer


def test_commits_are_read_back_by_delta_and_show_in_the_history(found: dict[str, Any]) -> None:
    assert found["commits"] == [3, {"number": 2}, 4]


def test_a_commit_that_arrives_late_leaves_the_newer_runs_commit_in_place(found: dict[str, Any]) -> None:
    assert found["late"] == ["RPL-4407", True]


def test_deltas_own_log_store_overwrites_the_newer_runs_commit_in_the_same_scene(found: dict[str, Any]) -> None:
    """What the test above relies on."""
    assert found["late with Delta alone"] == ["done", False]


def test_refused_throttled_lost_and_slow_writes_leave_one_commit_each(found: dict[str, Any]) -> None:
    assert found["faults"] == 4


def test_a_commit_asks_the_same_of_the_store_however_long_the_log_is(found: dict[str, Any]) -> None:
    after_few, after_many = found["requests"]
    assert after_few["commits"] == after_many["commits"]
    assert after_many["lists"] == 0
    assert after_many["checksum"] == [0, ["replicator.progress"]]


def test_a_listing_of_the_log_begins_at_its_newest_checkpoint(found: dict[str, Any]) -> None:
    assert [len(after["update"]) for after in found["requests"]] == [1, 1]


def test_a_store_that_ignores_the_condition_gets_no_commit(found: dict[str, Any]) -> None:
    code, keys = found["careless"]
    assert code == "RPL-3409"
    assert not [key for key in keys if key.endswith(".json") or "_probe" in key]


def test_only_tables_on_s3_ask_for_its_settings() -> None:
    assert [is_on_s3(path) for path in ("s3://b/t", "s3a://b/t", "gs://b/t", "/s3/t")] == [True, True, False, False]
    assert "spark.databricks.delta.vacuum.logging.enabled" in session_settings(2, "s3://b/t")
    assert "spark.databricks.delta.vacuum.logging.enabled" not in session_settings(2, "/lake")


@pytest.mark.parametrize(
    ("path", "configured", "expected"),
    [
        ("s3://b/t", None, "org.apache.hadoop.fs.s3a.S3AFileSystem"),
        ("s3://b/t", "com.amazon.ws.emr.hadoop.fs.EmrFileSystem", "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"),
        ("s3a://b/t", None, None),
    ],
)
def test_a_client_that_is_configured_for_s3_stays(
    spark: SparkSession, path: str, configured: str | None, expected: str | None
) -> None:
    assert not any("fs.s3.impl" in key for key in session_settings(2, path))
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.unset("fs.s3.impl")
    try:
        if configured:
            hadoop.set("fs.s3.impl", configured)
        name_client(spark, path)
        assert hadoop.get("fs.s3.impl") == expected
    finally:
        hadoop.unset("fs.s3.impl")
