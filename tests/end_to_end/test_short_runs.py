"""Runs that are far shorter than any interval, one after the other: tables are compacted and vacuumed nevertheless."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.crash.one_process import OneProcess
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator

RUNS = 31
BUSY, IDLE = ("a", "b", "c"), ("x", "y")


@pytest.mark.timeout(900)
def test_31_short_runs_compact_and_vacuum_and_leave_idle_tables_alone(tmp_path: Path) -> None:
    """The process is killed in the middle, so that the due times come from the state."""
    source = tmp_path / "shop.db"
    _run(source, "PRAGMA journal_mode = WAL", *(f"CREATE TABLE {t} (id INTEGER PRIMARY KEY)" for t in (*BUSY, *IDLE)))
    settings = {"optimizeIntervalSeconds": 4, "vacuumIntervalSeconds": 8, "vacuumRetentionHours": 1}
    replicator = Replicator(tmp_path, ("sqlite", {"path": str(source)}), lake_settings=settings)
    with OneProcess(tmp_path / "process") as process:
        assert process.run(replicator.document()) == ""
        orphans = [_orphan(replicator.lake / "main" / table) for table in (*BUSY, *IDLE)]
        versions = [_version(replicator.lake / "main" / table) for table in IDLE]
        for number in range(RUNS):
            _run(source, *(f"INSERT INTO {table} VALUES ({number})" for table in BUSY))
            assert process.run(replicator.document()) == ""
            if number == RUNS // 2:
                process.kill()
    for table in BUSY:
        path = replicator.lake / "main" / table
        assert Counter(delta_rows(path, ["id"])) == Counter((number,) for number in range(RUNS))
        assert len(DeltaTable(str(path)).file_uris()) < RUNS - 8, f"{table} was compacted"
    assert not any(orphan.exists() for orphan in orphans), "each table was vacuumed"
    assert [_version(replicator.lake / "main" / table) for table in IDLE] == versions


def _run(source: Path, *statements: str) -> None:
    with closing(sqlite3.connect(source, timeout=30)) as database, database:
        for statement in statements:
            database.execute(statement)


def _orphan(table: Path) -> Path:
    """A file as an interrupted write leaves it, long ago."""
    path = table / "part-orphan.parquet"
    path.write_bytes(b"x")
    os.utime(path, (0, 0))
    return path


def _version(table: Path) -> int:
    return DeltaTable(str(table)).version()
