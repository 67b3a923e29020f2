"""The engine drives the target: a SQLite shop arrives by the command line, without Spark, and changes follow."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.worker import run
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk.errors import NeedsUserError
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators


def pipeline_of(project: Project, folder: Path, **batch: object) -> Path:
    """The pipeline file of `shop.db` into the project, in the same folder."""
    source = {"name": "sqlite", "type": "cdcSource", "properties": {"path": f"{folder}/shop.db"}}
    settings = project.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    target = {"name": "bigquery", "type": "cdcTarget", "properties": settings}
    made = {
        "name": "shop",
        "stages": [{"name": "shop", "plugin": source}, {"name": "catalogue", "plugin": target}],
        "connections": [{"from": "shop", "to": "catalogue"}],
        "tables": [{"database": "main", "table": "*"}],
        "offsetBasePath": str(folder / "state"),
        "batch": batch,
    }
    (folder / "pipeline.json").write_text(json.dumps(made))
    return folder / "pipeline.json"


def replicate(pipeline: Path) -> None:
    command = [str(Path(sys.executable).with_name("replicator")), "run", str(pipeline), "--until-current"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def test_a_shop_arrives_and_its_changes_follow(project: Project, tmp_path: Path) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customers VALUES (1, 'a'), (2, 'b');"
    )
    shop.commit()
    pipeline = pipeline_of(project, tmp_path)
    replicate(pipeline)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["1", "a"], ["2", "b"]]
    shop.executescript("UPDATE customers SET id = 3 WHERE id = 1; DELETE FROM customers WHERE id = 2;")
    shop.commit()
    replicate(pipeline)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["3", "a"]]
    shop.close()


@pytest.mark.parametrize("mode", ["initial", "never"])
def test_a_table_that_was_made_by_hand_is_refused_and_the_others_go_on(
    project: Project, tmp_path: Path, mode: str
) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    shop.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE notes (id INTEGER PRIMARY KEY);"
    )
    document = json.loads(pipeline_of(project, tmp_path).read_text())
    document |= {"snapshot": {"mode": mode}, "edits": "apply", "tables": [{"database": "main", "table": "notes"}]}
    run(build_pipeline(document, host=PluginHost()), until_current=True)
    project.select("CREATE TABLE {d}.customers (id INT64, name STRING)")
    project.select("INSERT INTO {d}.customers VALUES (1, 'by hand')")
    document["tables"] = [{"database": "main", "table": "*"}]
    shop.executescript("INSERT INTO customers VALUES (2, 'b'); INSERT INTO notes VALUES (1);")
    with pytest.raises(NeedsUserError, match="RPL-6524"):
        run(build_pipeline(document, host=PluginHost()), until_current=True)
    assert project.select("SELECT id, name FROM {d}.customers") == [["1", "by hand"]]
    assert project.count("notes") == 1
    shop.close()


def test_the_load_interval_limits_neither_rows_nor_other_tables(bigquery_emulators: Emulators, tmp_path: Path) -> None:
    """Each of the batches would have waited an hour."""
    bigquery_emulators.gate.clear()
    project = Project(bigquery_emulators, load_interval=3600)
    shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    shop.executescript(
        "CREATE TABLE busy (id INTEGER PRIMARY KEY, n INT); CREATE TABLE quiet (id INTEGER PRIMARY KEY);"
    )
    pipeline = pipeline_of(project, tmp_path, maxRows=500)
    replicate(pipeline)
    for start in range(0, 10_000, 100):
        values = ", ".join(f"({key}, {key % 7})" for key in range(start, start + 100))
        shop.execute(f"INSERT INTO busy VALUES {values}")
        shop.execute(f"INSERT INTO quiet VALUES ({start})")
    replicate(pipeline)
    assert (project.count("busy"), project.count("quiet")) == (10_000, 100)
    assert sum(job.kind == "load" for job in bigquery_emulators.gate.jobs) < 10
    shop.close()
