"""The engine drives the target: a SQLite shop arrives by the command line, without Spark, and changes follow."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.plugins.targets.bigquery.support.project import Project


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
    pipeline = tmp_path / "pipeline.json"
    stages = [
        {
            "name": "shop",
            "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": f"{tmp_path}/shop.db"}},
        },
        {
            "name": "catalogue",
            "plugin": {
                "name": "bigquery",
                "type": "cdcTarget",
                "properties": project.config.model_dump(mode="json", by_alias=True, exclude_none=True),
            },
        },
    ]
    made = {
        "name": "shop",
        "stages": stages,
        "connections": [{"from": "shop", "to": "catalogue"}],
        "tables": [{"database": "main", "table": "customers"}],
        "offsetBasePath": str(tmp_path / "state"),
    }
    pipeline.write_text(json.dumps(made))
    replicate(pipeline)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["1", "a"], ["2", "b"]]
    shop.executescript("UPDATE customers SET id = 3 WHERE id = 1; DELETE FROM customers WHERE id = 2;")
    shop.commit()
    replicate(pipeline)
    assert project.select("SELECT id, name FROM {d}.customers ORDER BY id") == [["3", "a"]]
    shop.close()
