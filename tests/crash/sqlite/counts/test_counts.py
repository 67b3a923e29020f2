"""Counts of changes over SIGKILLs: they equal what was changed at the source, whatever step each kill cuts."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from tests.crash.sqlite.conftest import MakePair

if TYPE_CHECKING:
    from tests.crash.sqlite.pair import Pair

POINTS = (
    "engine.batch.gathered",
    "file.commit.before",
    "file.commit.after",
    "engine.batch.applied",
    "engine.offset.before_save",
    "engine.offset.after_save",
)


def change(pair: Pair, chance: random.Random, made: Counter[str]) -> None:
    """Change rows in one transaction, and count them by SQLite's own count of each statement."""
    first = chance.randint(10_000, 10**9)
    statements = [
        ("customer insert", f"INSERT INTO customer VALUES ({first}, 'a', 1), ({first + 1}, 'b', 1)"),
        ("customer update", f"UPDATE customer SET visits = visits + 1 WHERE id % {chance.randint(5, 50)} = 0"),
        ("customer delete", f"DELETE FROM customer WHERE id = {chance.randint(1, 250)}"),
        ("note insert", "INSERT INTO note VALUES ('x'), ('y'), ('z')"),
        ("note delete", "DELETE FROM note WHERE rowid = (SELECT max(rowid) FROM note)"),
    ]
    with closing(sqlite3.connect(pair.database.path, timeout=30)) as database, database:
        for kind, statement in chance.sample(statements, 3):
            made[kind] += database.execute(statement).rowcount


def counted(pair: Pair) -> Counter[str]:
    """The counts of the last run's status: changes of the log, not rows of copies."""
    [file] = pair.replicator.state.glob("default/*/*/state.json")
    tables: dict[str, Any] = json.loads(file.read_text())["metrics"]["tables"]
    found: Counter[str] = Counter()
    for name, metrics in tables.items():
        counters = {key.partition(".")[2]: value for key, value in metrics["counters"].items()}
        copied = counters.pop("snapshot.rows", 0)
        for operation in ("insert", "update", "delete"):
            number = counters.get(f"dml.{operation}", 0) - (copied if operation == "insert" else 0)
            found[f"{name.rpartition('.')[2]} {operation}"] += number
    return +found


def test_counts_equal_the_changes_made_over_kills_at_every_step(make_pair: MakePair) -> None:
    pair, chance, made = make_pair(), random.Random(7), Counter[str]()
    pair.run_until_current()
    assert counted(pair) == Counter()
    for point in chance.sample(POINTS, len(POINTS)):
        for _ in range(3):
            change(pair, chance, made)
        pair.kill_at(point)
    for _ in range(3):
        change(pair, chance, made)
        pair.run_until_current()
        assert counted(pair) == made
        assert pair.differences() == {}
