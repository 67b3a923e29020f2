"""A change of structure between a table's description and its copy, which the log announces only after the copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_source_postgres.snapshots.snapshot import PostgresSnapshotReader
from tests.plugins.sources.postgres.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.in_memory_target import InMemoryTable
from tests.services.postgres.server import PostgresDatabase

_SWAP = "ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME x TO b"


def _alter_before_the_copy(monkeypatch: pytest.MonkeyPatch, alter: Callable[[], object]) -> None:
    """The first copy of table `t` begins just after `alter`; its description was read before."""
    opened = PostgresSnapshotReader.open
    done: list[int] = []

    def late(self: PostgresSnapshotReader, schema: Any, *arguments: Any) -> Any:
        if schema.table.table == "t" and not done:
            done.append(1)
            alter()
        return opened(self, schema, *arguments)

    monkeypatch.setattr(PostgresSnapshotReader, "open", late)


def _wait_until_copied(*tables: str) -> None:
    deadline = time.monotonic() + 120
    while {t.schema.table.table for t in _copied()} != set(tables):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _copied() -> list[InMemoryTable]:
    found = list(in_memory_target.STORAGE.tables.values())
    return [t for t in found if t.progress is not None and t.progress.snapshot_chunks is None]


@pytest.mark.parametrize("later", ["", "ALTER TABLE t ADD c int", _SWAP])
def test_a_change_that_the_copy_has_is_not_applied_again(
    later: str, postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); CREATE TABLE o (id int PRIMARY KEY)")
    db.execute("INSERT INTO t VALUES (1, 'a1', 'b1')")
    pipeline = Pipeline(db, tmp_path, "t", "o")
    _alter_before_the_copy(monkeypatch, lambda: db.execute(_SWAP))
    with pipeline.running():
        _wait_until_copied("t", "o")
        pipeline.wait_until_equal()
        db.execute("INSERT INTO o VALUES (1)")
        pipeline.wait_until_equal()
        if later:
            db.execute(later)
        db.execute("INSERT INTO t (id, a, b) VALUES (2, 'a2', 'b2')")
        pipeline.wait_until_equal()
    for n in (3, 4, 5):
        db.execute(f"INSERT INTO t (id, a, b) VALUES ({n}, 'a', 'b')")
        pipeline.run()
        pipeline.assert_equal()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_SWAP, "ALTER TABLE t ADD c int"),
        (_SWAP, "ALTER TABLE t DROP b"),
        (_SWAP, "ALTER TABLE t RENAME b TO c"),
        (_SWAP, _SWAP),
        ("ALTER TABLE t ADD c int", "ALTER TABLE t DROP c"),
        ("ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME c TO a"),
    ],
)
def test_of_changes_that_are_announced_together_only_those_after_the_copy_are_applied(
    before: str, after: str, postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the two undo each other, the log announces nothing, and the table is copied again."""
    db = postgres_database
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); CREATE TABLE o (id int PRIMARY KEY)")
    db.execute("INSERT INTO t VALUES (1, 'a1', 'b1')")
    pipeline = Pipeline(db, tmp_path, "t", "o", heartbeatIntervalSeconds=60)
    _alter_before_the_copy(monkeypatch, lambda: db.execute(before))
    with pipeline.running():
        _wait_until_copied("t", "o")
        db.execute(after)
        db.execute("INSERT INTO t (id, a) VALUES (2, 'a2')")
        pipeline.wait_until_equal()
    for n in (3, 4, 5):
        db.execute(f"INSERT INTO t (id) VALUES ({n})")
        pipeline.run()
        pipeline.assert_equal()
