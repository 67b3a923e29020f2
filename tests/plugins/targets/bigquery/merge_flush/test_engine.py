"""The engine drives mode merge-flush by the command line; killed between streaming and merging, it loses nothing."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.replicator import COMMAND
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.forks import fork


def replicate(pipeline: Path, kill_at: str = "") -> int:
    command = [*COMMAND, "run", str(pipeline), "--until-current"]
    log = pipeline.with_name("log")
    environment = {"REPLICATOR_FAILPOINTS": f"{kill_at}=kill" if kill_at else ""}
    ended = fork(command, log=log, environment=environment).wait(240)
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


@dataclass
class Shop:
    """A SQLite file with one table, which a pipeline replicates; `source` and `copy` of three runs."""

    project: Project
    folder: Path
    pipeline: Path
    structures: int = 0

    def execute(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with closing(sqlite3.connect(self.folder / "shop.db")) as database, database:
            for statement in statements:
                database.execute(statement)

    def change_rows(self) -> None:
        """A row comes, one moves to another key and one goes."""
        self.execute(
            "INSERT INTO customers (id, name) SELECT max(id) + 1, 'later' FROM customers",
            "INSERT INTO customers (id, name) SELECT max(id) + 1, 'goes' FROM customers",
            "UPDATE customers SET id = (SELECT max(id) + 1 FROM customers) WHERE id = (SELECT min(id) FROM customers)",
            "DELETE FROM customers WHERE name = 'goes'",
        )

    def change_structure(self) -> None:
        """Another column, then another name of it."""
        self.structures += 1
        self.execute(
            "ALTER TABLE customers ADD COLUMN city TEXT DEFAULT 'Rome'"
            if self.structures == 1
            else "ALTER TABLE customers RENAME COLUMN city TO town"
        )

    def run_until_current(self) -> None:
        """A run that is not killed."""
        assert replicate(self.pipeline) == 0

    def held(self) -> list[list[Any]]:
        """Key, id and name of the copy's rows."""
        return self.project.select(f"SELECT {KEY}.id, id, name FROM {{d}}.customers ORDER BY id")

    def differences(self) -> str:
        """How the table and its copy differ."""
        with closing(sqlite3.connect(self.folder / "shop.db")) as database:
            found = database.execute("SELECT * FROM customers ORDER BY id")
            names, rows = [column[0] for column in found.description], found.fetchall()
        wanted = [[str(row[0]), *(None if value is None else str(value) for value in row)] for row in rows]
        copied = self.project.select(f"SELECT {KEY}.id, {', '.join(names)} FROM {{d}}.customers ORDER BY id")
        return f"{wanted} at the source, {copied} at the target" if wanted != copied else ""


def test_a_shop_arrives_and_three_runs_after_a_kill_between_stream_and_merge_are_equal(
    project: Project, tmp_path: Path
) -> None:
    shop = Shop(project, tmp_path, shop_pipeline(project, tmp_path))
    shop.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    shop.execute("INSERT INTO customers VALUES (1, 'a'), (2, 'b')")
    shop.run_until_current()
    assert shop.held() == [["1", "1", "a"], ["2", "2", "b"]]
    shop.execute(
        "UPDATE customers SET id = 3 WHERE id = 1",
        "DELETE FROM customers WHERE id = 2",
        "INSERT INTO customers VALUES (1, 'n')",
    )
    assert replicate(shop.pipeline, "engine.batch.applied") == -signal.SIGKILL
    assert shop.held() == [["1", "1", "a"], ["2", "2", "b"]], "streamed, and not merged"
    ThreeRuns(shop, [shop]).check()
