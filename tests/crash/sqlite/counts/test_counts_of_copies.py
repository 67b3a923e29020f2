"""Counts of copied rows over SIGKILLs: a chunk that is written again counts once, and no kill has the log's changes counted wrong."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.counts.test_counts import change, counted

if TYPE_CHECKING:
    from tests.crash.sqlite.pair import Pair

ROWS = {"customer": 200, "note": 100}


def copied(pair: Pair) -> dict[str, int]:
    """How many rows of copies are counted of each table."""
    [file] = pair.replicator.state.glob("default/*/*/state.json")
    tables = json.loads(file.read_text())["metrics"]["tables"]
    return {name.rpartition(".")[2]: m["counters"].get("target.snapshot.rows", 0) for name, m in tables.items()}


@pytest.mark.parametrize("point", ["engine.snapshot.planned", "file.commit.before"])
def test_chunks_that_are_written_after_a_kill_before_their_commit_are_counted_once(
    point: str, make_pair: MakePair
) -> None:
    pair, chance, made = make_pair(), random.Random(9), Counter[str]()
    for _ in range(3):
        pair.kill_at(point)
    pair.run_until_current()
    assert copied(pair) == ROWS
    change(pair, chance, made)
    pair.run_until_current()
    assert counted(pair) == made


@pytest.mark.parametrize("point", ["file.commit.after", "engine.snapshot.chunks_loaded", "engine.snapshot.finished"])
def test_rows_of_chunks_that_were_committed_right_before_a_kill_are_never_counted_twice(
    point: str, make_pair: MakePair
) -> None:
    """They may be missing, as docs/metrics.md says; the log's changes are exact all the same."""
    pair, chance, made = make_pair(), random.Random(10), Counter[str]()
    pair.kill_at(point)
    pair.run_until_current()
    found = copied(pair)
    assert all(found.get(table, 0) <= rows for table, rows in ROWS.items()), found
    change(pair, chance, made)
    pair.run_until_current()
    assert counted(pair) == made
    assert pair.differences() == {}
