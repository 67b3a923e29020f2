"""A run whose BigQuery or Cloud Storage never answers logs which setting to check; runs with the right one go on, and lose nothing."""

from __future__ import annotations

import signal
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.replicator import Replicator
from tests.plugins.targets.bigquery.support.wrong_servers import silent_server
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings
from tests.services.processes import LOOPBACK

SECONDS = 300.0


def execute(database: Path, *statements: str) -> None:
    """Change the source."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("setting", "copied"),
    [("apiEndpoint", False), ("storageEndpoint", True)],
    ids=["BigQuery, before the first copy", "Cloud Storage, while replicating"],
)
def test_an_endpoint_that_never_answers_is_named_in_the_log_and_later_runs_are_equal(
    bigquery_emulators: Emulators, tmp_path: Path, setting: str, copied: bool
) -> None:
    bigquery_emulators.gate.clear()
    database, dataset = tmp_path / "shop.db", f"d{uuid.uuid4().hex[:12]}"
    right = target_settings(bigquery_emulators, dataset)
    replicator = Replicator(tmp_path / "run", ("sqlite", {"path": str(database)}), ("bigquery", right))
    execute(
        database, "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO customer VALUES (1, 'a')"
    )
    if copied:
        replicator.until_current()
    execute(database, "INSERT INTO customer VALUES (2, 'b')", "UPDATE customer SET name = 'c' WHERE id = 1")
    with silent_server() as port:
        replicator.target = "bigquery", {**right, setting: f"http://{LOOPBACK}:{port}"}
        running = replicator.start()
        running.said("code=RPL-6538", SECONDS)
        ended = running.stop()
    assert ended.status == 128 + signal.SIGTERM, ended.messages
    lines = [line for line in ended.messages.splitlines() if "run.retry" in line]
    assert lines
    assert all(f"`{setting}`" in line and "main.customer" in line for line in lines), lines
    replicator.target = "bigquery", right
    for number in range(3, 6):
        replicator.until_current()
        wanted = [("1", "c"), ("2", "b"), *((str(key), "more") for key in range(3, number))]
        copy = rows(bigquery_emulators, f"SELECT id, name FROM `{PROJECT}`.`{dataset}`.customer")
        assert sorted(tuple(row) for row in copy) == wanted
        execute(database, f"INSERT INTO customer VALUES ({number}, 'more')")
