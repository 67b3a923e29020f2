"""A copy into BigQuery has a consumer of its own, which goes on while the stream's is replaced."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.worker import run
from replicator_source_sqlite.plugin import SqliteSource
from replicator_target_bigquery import BigQueryTarget
from tests.crash.sqlite.failing_tables.copy_beside_failures import FAILURES, CopyBesideFailures
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

MERGING = {"upsert_enabled": True, "delete_enabled": True, "kafka_key_field_name": "the_key"}
ITEMS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)"


class Host:
    """The two plugins of these tests."""

    def source(self, name: str) -> type[SqliteSource]:
        return SqliteSource

    def target(self, name: str) -> type[BigQueryTarget]:
        return BigQueryTarget


def document(project: Project, folder: Path, *tables: str) -> dict[str, Any]:
    target = project.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    shop = {"path": f"{folder}/shop.db", "chunkRows": 1}
    return {
        "name": "shop",
        "stages": [
            {"name": "shop", "plugin": {"name": "sqlite", "type": "cdcSource", "properties": shop}},
            {"name": "catalogue", "plugin": {"name": "bigquery", "type": "cdcTarget", "properties": target}},
        ],
        "connections": [{"from": "shop", "to": "catalogue"}],
        "tables": [{"table": table} for table in tables],
        "offsetBasePath": str(folder / "state"),
        "retries": {"maxDurationSeconds": 60, "delaySeconds": 0.1},
        "batch": {"maxIntervalSeconds": 0.05},
    }


def replicate(made: dict[str, Any]) -> None:
    assert run(build_pipeline(made, host=Host()), until_current=True).reached_goal  # type: ignore[arg-type]


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("tasks_run_here")
@pytest.mark.parametrize(
    ("settings", "copied"),
    [
        ({"mode": "batch"}, "item"),
        ({"mode": "batch"}, "customer"),
        ({"mode": "merge-flush", **MERGING}, "customer"),
    ],
    ids=["batch-item", "batch-customer", "merge-flush-customer"],
)
def test_a_copy_reads_each_chunk_once_though_the_stream_rejoins(
    bigquery_emulators: Emulators,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    copied: str,
) -> None:
    """The table `item` has no key: its copy could not be resumed."""
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, **settings)
    monkeypatch.setattr(SparkHandle, "session", lambda self: None)
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.executescript(
        "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE other (id INTEGER PRIMARY KEY);"
        f"CREATE TABLE item (name TEXT); {ITEMS} INSERT INTO item SELECT i % 5 FROM n;"
        f"{ITEMS} INSERT INTO customer SELECT i, 'name ' || i FROM n; INSERT INTO other VALUES (1);"
    )
    replicate(document(project, tmp_path, "other"))
    shop.executescript("INSERT INTO other VALUES (2);")
    with monkeypatch.context() as patches:
        made = CopyBesideFailures(copied, patches)
        replicate(document(project, tmp_path, "other", copied))
    assert (made.failures, made.copies) == (FAILURES, 1)
    assert made.waves in {5, 6}
    shop.executescript("UPDATE customer SET name = 'new' WHERE id < 3; DELETE FROM item WHERE name = '2';")
    shop.commit()
    replicate(document(project, tmp_path, "other", copied))
    wanted = [[str(value) for value in row] for row in shop.execute(f"SELECT name FROM {copied} ORDER BY name")]
    assert project.select(f"SELECT name FROM {{d}}.{copied} ORDER BY name") == wanted
    assert project.count("other") == 2
    shop.close()
