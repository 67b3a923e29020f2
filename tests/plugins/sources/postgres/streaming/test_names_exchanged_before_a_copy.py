"""Tables that exchange their names after they were described, and before they are copied, have their own rows."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from replicator_source_postgres.snapshots.snapshot import PostgresSnapshotReader
from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.services.postgres.server import PostgresDatabase


def test_names_that_are_exchanged_just_before_the_first_copy_are_not_exchanged_again_by_the_log(
    postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = postgres_database
    for name in "ab":
        db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text); INSERT INTO {name} VALUES (1, 'of {name}')")
    pipeline = Pipeline(db, tmp_path, "a", "b")
    exchange = ["ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b"]
    opened, lock = PostgresSnapshotReader.open, threading.Lock()

    def late(self: PostgresSnapshotReader, *arguments: Any) -> Any:
        with lock:  # tables are copied by several threads
            while exchange:
                db.execute(exchange.pop())
        return opened(self, *arguments)

    monkeypatch.setattr(PostgresSnapshotReader, "open", late)
    copied: list[str] = []
    in_memory_target.STORAGE.fault = lambda step, table: copied.append(table.table) if step == "load" else None
    for number in range(3):
        pipeline.run()
        pipeline.assert_equal()
        assert sorted(copied) == ["a", "b"]
        assert in_memory_target.STORAGE.ddl == []
        db.execute(f"INSERT INTO a VALUES ({10 + number}, 'run {number}'); UPDATE b SET v = 'run {number}'")
