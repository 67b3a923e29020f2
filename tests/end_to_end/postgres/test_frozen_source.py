"""A PostgreSQL that freezes: lag and metrics of a run that had everything say so, and recover."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.end_to_end.replicator import Replicator, postgres_source
from tests.runtime.exposition.conftest import parsed
from tests.services.network import NetworkTo
from tests.services.postgres.server import PostgresDatabase

LIMIT = 240


def wait_for(look: Callable[[], Any]) -> Any:
    """What `look` finds once it finds something."""
    deadline = time.monotonic() + LIMIT
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def test_lag_grows_in_status_and_metrics_while_the_server_is_frozen(
    postgres_database: PostgresDatabase, network: NetworkTo, tmp_path: Path, file_target_package: str
) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (a int PRIMARY KEY)")
    db.execute("INSERT INTO t VALUES (1)")
    proxy = network(db.port)
    replicator = Replicator(
        tmp_path,
        postgres_source(db, port=proxy.port, heartbeatIntervalSeconds=0.5),
        ("file", {"path": str(tmp_path / "target")}),
        environment={"PYTHONPATH": file_target_package},
    )
    running = replicator.start("--metrics-address", ":0")
    address = wait_for(lambda: re.search(r"metrics at (\S+)", running.log.read_text()))[1]

    def status(key: str) -> Any:
        files = list(replicator.state.glob("default/*/*/state.json"))
        return json.loads(files[0].read_text())[key] if files else None

    def metric(name: str) -> float | None:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return parsed(answer.read().decode()).get((name, frozenset()))

    wait_for(lambda: status("lagSeconds") == 0 and status("source"))
    db.execute("INSERT INTO t VALUES (2)")
    wait_for(lambda: metric("replicator_source_waiting_bytes") is not None)
    proxy.freeze()
    wait_for(lambda: (status("lagSeconds") or 0) > 10)
    assert (metric("replicator_lag_seconds") or 0) > 10
    assert (metric("replicator_source_silent_seconds") or 0) > 10
    proxy.clear()
    wait_for(lambda: status("lagSeconds") == 0)
    wait_for(lambda: metric("replicator_lag_seconds") == 0)
    assert metric("replicator_source_held_bytes") is not None
    assert db.password not in running.log.read_text()
    running.stop()
