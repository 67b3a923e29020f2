"""The engine drives mode merge-flush by the command line; killed between streaming and merging, it loses nothing."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

from tests.end_to_end.replicator import COMMAND
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.forks import fork


def replicate(pipeline: Path, kill_at: str = "") -> int:
    command = [*COMMAND, "run", str(pipeline), "--until-current"]
    log = pipeline.with_name("log")
    environment = {"REPLICATOR_FAILPOINTS": f"{kill_at}=kill" if kill_at else ""}
    ended = fork(command, log=log, environment=environment).wait(90)
    assert ended in {0, -signal.SIGKILL}, log.read_text()
    return ended


def shop_pipeline(project: Project, folder: Path) -> Path:
    def stage(name: str, plugin: str, kind: str, properties: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "plugin": {"name": plugin, "type": kind, "properties": properties}}

    settings = project.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = {
        "name": "shop",
        "stages": [
            stage("shop", "sqlite", "cdcSource", {"path": f"{folder}/shop.db"}),
            stage("catalogue", "bigquery", "cdcTarget", settings),
        ],
        "connections": [{"from": "shop", "to": "catalogue"}],
        "tables": [{"database": "main", "table": "customers"}],
        "offsetBasePath": str(folder / "state"),
    }
    (folder / "pipeline.json").write_text(json.dumps(made))
    return folder / "pipeline.json"


def test_a_shop_arrives_and_a_kill_between_stream_and_merge_loses_nothing(project: Project, tmp_path: Path) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customers VALUES (1, 'a'), (2, 'b');"
    )
    shop.commit()
    pipeline = shop_pipeline(project, tmp_path)
    assert replicate(pipeline) == 0
    held = f"SELECT {KEY}.id, id, name FROM {{d}}.customers ORDER BY id"
    assert project.select(held) == [["1", "1", "a"], ["2", "2", "b"]]
    shop.executescript(
        "UPDATE customers SET id = 3 WHERE id = 1; DELETE FROM customers WHERE id = 2; INSERT INTO customers VALUES (1, 'n');"
    )
    shop.commit()
    shop.close()
    assert replicate(pipeline, "engine.batch.applied") == -signal.SIGKILL
    assert project.select(held) == [["1", "1", "a"], ["2", "2", "b"]], "streamed, and not merged"
    assert replicate(pipeline) == 0
    assert project.select(held) == [["1", "1", "n"], ["3", "3", "a"]]
