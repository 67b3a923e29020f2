"""Counts of copied rows over SIGKILLs: a chunk that is written again counts once, and no kill has the log's changes counted wrong."""

from __future__ import annotations

import json
import random
import signal
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


@pytest.mark.parametrize(
    "point",
    [
        "engine.snapshot.planned",
        "file.commit.before",
        "file.commit.after",
        "engine.snapshot.chunks_loaded",
        "engine.snapshot.finished",
    ],
)
def test_copied_rows_are_counted_once_whatever_step_a_kill_cuts(point: str, make_pair: MakePair) -> None:
    """Also of chunks that were committed right before it: the table's own commit says how many rows they have."""
    pair, chance, made = make_pair(), random.Random(9), Counter[str]()
    pair.kill_at(point)
    ended = pair.start("--until-current", point=point).wait(300)
    assert ended.status in {0, -signal.SIGKILL}, ended.messages  # both copies may have ended beside the first kill
    pair.run_until_current()
    rows, again = copied(pair), ROWS["note"]
    assert rows["customer"] == ROWS["customer"]
    assert rows["note"] in {again, 2 * again, 3 * again}, "each copy of a table without a key begins from scratch"
    change(pair, chance, made)
    pair.run_until_current()
    assert counted(pair) == made
    assert pair.differences() == {}
