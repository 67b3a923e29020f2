"""A state folder that is put back from a backup, beside tables that went on, with each target that puts rows aside."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.soak.targets import Delta, Iceberg, Target

_COMMAND = str(Path(sys.executable).with_name("replicator"))


class _Replicator:
    """Of a table with a row that is put aside.

    Args:
        target: Where it goes.
        folder: Of all files.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self._target, self._folder = target, folder
        plugin, properties = target.begin(folder)
        self.sql(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, size INTEGER)", "INSERT INTO item VALUES (1, 1), (2, 'XL')"
        )
        made = {
            "name": "shop",
            "offsetBasePath": target.state(folder),
            "stages": [
                {
                    "name": "db",
                    "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(folder / "shop.db")}},
                },
                {"name": "lake", "plugin": {"name": plugin, "type": "cdcTarget", "properties": dict(properties)}},
            ],
            "connections": [{"from": "db", "to": "lake"}],
            "onDataError": "lane",
            "spark": {"master": "local[2]", "conf": dict(target.spark)},
        }
        self.pipeline = folder / "pipeline.json"
        self.pipeline.write_text(json.dumps(made))

    def sql(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with closing(sqlite3.connect(self._folder / "shop.db", isolation_level=None)) as database:
            for statement in statements:
                database.execute(statement)

    def command(self, *words: str) -> str:
        """What the command prints."""
        done = subprocess.run([_COMMAND, *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def run(self) -> str:
        """A run to the source's end; what it prints."""
        return self.command("run", str(self.pipeline), "--until-current")

    def aside(self) -> int:
        """How many rows are put aside."""
        found: dict[str, Any] = json.loads(self.command("dead-letters", "list", str(self.pipeline), "--json"))
        return sum(table["rows"] for table in found["data"])

    def held(self, table: str) -> list[tuple[Any, ...]]:
        """The target's rows."""
        return sorted((int(a), int(b)) for a, b in self._target.rows("main", table, ["id", "size"]))


@pytest.fixture(params=["delta", "iceberg"])
def replicator(request: pytest.FixtureRequest, tmp_path: Path) -> _Replicator:
    return _Replicator(Delta() if request.param == "delta" else Iceberg(), tmp_path)


@pytest.mark.timeout(1200)
def test_rows_put_aside_since_are_put_aside_again_and_nothing_is_copied_again_otherwise(
    replicator: _Replicator, tmp_path: Path
) -> None:
    state, backup = tmp_path / "state", tmp_path / "backup"
    replicator.run()
    replicator.sql("INSERT INTO item VALUES (3, 3)")
    replicator.command("table", "pause", str(replicator.pipeline), "item")
    replicator.command("table", "resume", str(replicator.pipeline), "item")
    assert "RPL-4117" not in replicator.run()
    assert replicator.held("item") == [(1, 1), (3, 3)]
    shutil.copytree(state, backup)
    replicator.sql("INSERT INTO item VALUES (4, 'L'), (5, 5)", "UPDATE item SET size = 'S' WHERE id = 1")
    assert "RPL-4117" not in replicator.run()
    assert (replicator.aside(), replicator.held("item")) == (3, [(3, 3), (5, 5)])
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    assert "RPL-4117" in replicator.command("maintain", str(replicator.pipeline), "--all")
    assert "RPL-4117" in replicator.run()
    assert (replicator.aside(), replicator.held("item")) == (3, [(3, 3), (5, 5)])
    replicator.sql("UPDATE item SET size = id", "ALTER TABLE item RENAME TO part")
    for number in range(3):
        assert "RPL-4117" not in replicator.run()
        wanted = sorted([(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), *((10 + n, n) for n in range(number))])
        assert (replicator.aside(), replicator.held("part")) == (0, wanted)
        replicator.sql(
            f"INSERT INTO part (id, size) VALUES ({10 + number}, {number})", f"ALTER TABLE part ADD n{number} TEXT"
        )
