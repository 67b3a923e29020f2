"""A run shows what its target stores of each table, and what it has of Spark, while it goes on and when it has ended."""

from __future__ import annotations

import sqlite3
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import deltalake

from tests.end_to_end.replicator import Replicator
from tests.runtime.exposition.conftest import parsed
from tests.services.processes import LOOPBACK, free_port

SECONDS = 600


def test_files_deleted_rows_and_executors_are_scraped_from_a_run(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as shop:
        shop.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        shop.executemany("INSERT INTO item VALUES (?, 'a')", [(number,) for number in range(100)])
        shop.commit()
    made = Replicator(tmp_path, ("sqlite", {"path": str(database)}), settings={"tables": [{"table": "item"}]})
    port, file = free_port(), tmp_path / "shop.prom"
    running = made.start("--metrics-address", f"{LOOPBACK}:{port}", "--metrics-textfile", str(file))
    _wait(port, replicator_target_rows=100, replicator_target_deleted_rows=0, replicator_spark_executors=1)
    with closing(sqlite3.connect(database)) as shop:
        shop.execute("DELETE FROM item WHERE id < 10")
        shop.commit()
    found = _wait(port, replicator_target_rows=100, replicator_target_deleted_rows=10)
    assert found["replicator_spark_cores"] == 2
    assert found["replicator_spark_running_tasks"] >= 0
    [folder] = [path.parent for path in made.lake.rglob("_delta_log")]
    files = [Path(path.removeprefix("file://")) for path in deltalake.DeltaTable(str(folder)).file_uris()]
    assert found["replicator_target_files"] == len(files)
    assert found["replicator_target_bytes"] == sum(path.stat().st_size for path in files)
    running.stop()
    ended = {name: value for (name, _), value in parsed(file.read_text()).items()}
    assert ended["replicator_target_deleted_rows"] == 10
    assert "replicator_spark_executors" not in ended, "the session has ended with the run"


def _wait(port: int, **wanted: float) -> dict[str, float]:
    """What the run shows once these values are so, of each name one."""
    found: dict[str, float] = {}
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=60) as answer:
                found = {name: value for (name, _), value in parsed(answer.read().decode()).items()}
        except OSError:
            found = {}
        if wanted.items() <= found.items():
            return found
        time.sleep(1)
    raise AssertionError(f"{wanted} is not in {found}")
