"""`replicator serve` killed while a pipeline runs: rows still arrive, and the next service stops and deletes the same run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.end_to_end.replicator import COMMAND, SPARK
from tests.services.spark.session import INTERPRETER
from tests.waits import until

_SECONDS = 240.0
PATH = "/v1/contexts/default/pipelines"


def test_a_run_goes_on_while_its_service_is_killed_and_the_next_one_stops_it(tmp_path: Path) -> None:
    change(tmp_path, "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)")
    change(tmp_path, "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace')")
    try:
        with service(tmp_path, signal.SIGKILL) as client:
            created = client.post(PATH, json={"name": "shop", "config": config(tmp_path), "start": True})
            assert created.status_code == 201, created.text
            until(lambda: names(tmp_path) == ["Ada", "Grace"], "the rows arrive", seconds=_SECONDS)
            until(lambda: item(client)["state"] == "running", "its run says so", seconds=_SECONDS)
            before = item(client)
            client.post(PATH, json={"name": "unused", "config": config(tmp_path)}).raise_for_status()
            client.delete(f"{PATH}/unused").raise_for_status()
            until(lambda: len(client.get(PATH).json()) == 1, "one that never ran is deleted, too", seconds=_SECONDS)
        change(tmp_path, "INSERT INTO customer VALUES (3, 'Edsger')")
        until(lambda: names(tmp_path) == ["Ada", "Edsger", "Grace"], "rows arrive without a service", seconds=_SECONDS)
        with service(tmp_path, signal.SIGTERM) as client:
            until(lambda: item(client)["state"] == "running", "it is found again", seconds=_SECONDS)
            after = item(client)
            assert [after[key] for key in ("started", "runId")] == [before[key] for key in ("started", "runId")]
            change(tmp_path, "INSERT INTO customer VALUES (4, 'Alan')")
            until(lambda: len(names(tmp_path)) == 4, "and goes on", seconds=_SECONDS)
            client.post(f"{PATH}/shop/stop").raise_for_status()
            until(lambda: item(client)["state"] == "stopped", "it is stopped", seconds=_SECONDS)
            assert (item(client)["exitCode"], item(client)["phase"]) == (143, "done")
            client.delete(f"{PATH}/shop").raise_for_status()
            until(lambda: client.get(PATH).json() == [], "it is deleted", seconds=_SECONDS)
        assert triggers(tmp_path) == []
    finally:
        end_all(tmp_path)


def config(folder: Path) -> dict[str, Any]:
    """From SQLite into Delta."""
    return {
        "stages": [
            {
                "name": "from",
                "plugin": {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(folder / "shop.db")}},
            },
            {
                "name": "to",
                "plugin": {"name": "delta", "type": "cdcTarget", "properties": {"path": str(folder / "lake")}},
            },
        ],
        "spark": {**SPARK},
    }


@contextmanager
def service(folder: Path, end: signal.Signals) -> Iterator[httpx.Client]:
    """A client of `replicator serve`, which is ended by a signal."""
    store = ["--store", f"sqlite:///{folder / 'service.db'}", "--base-path", str(folder / "state")]
    words = ["serve", "--port", "0", "--auth", "none", *store, "--work-folder", str(folder / "work")]
    with subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, **INTERPRETER}
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            with httpx.Client(base_url=address, timeout=_SECONDS) as client:
                yield client
        finally:
            process.send_signal(end)
            process.wait(_SECONDS)


def item(client: httpx.Client) -> dict[str, Any]:
    """The only pipeline, as the list shows it."""
    found: list[dict[str, Any]] = client.get(PATH).json()
    return found[0]  # `shop`


def change(folder: Path, statement: str) -> None:
    """Change the source."""
    with closing(sqlite3.connect(folder / "shop.db", timeout=60)) as connection, connection:
        connection.execute(statement)


def triggers(folder: Path) -> list[str]:
    """What a replicator has left at the source."""
    with closing(sqlite3.connect(folder / "shop.db", timeout=60)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]


def names(folder: Path) -> list[str]:
    """What the target has; nothing before its table exists."""
    table = folder / "lake" / "main" / "customer"
    if not DeltaTable.is_deltatable(str(table)):
        return []
    found = QueryBuilder().register("t", DeltaTable(table)).execute("SELECT name FROM t").read_all()
    return sorted(row["name"] for row in pa.table(found).to_pylist())


def end_all(folder: Path) -> None:
    """Kill what a failed test has left; the kernel kills the runs with their keepers."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(str(folder / "work").encode()) for word in words) and b"-S" in words:
            os.kill(int(place.parent.name), signal.SIGKILL)
