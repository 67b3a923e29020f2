"""Counts of tables that are paused and resumed over SIGKILLs: they equal what was changed at the source, whatever step each kill cuts."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.crash.sqlite.commands.test_lanes import ask
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.counts.test_counts import change, counted

if TYPE_CHECKING:
    from tests.crash.sqlite.pair import Pair

POINTS = ("engine.lane.after_step", "engine.lane.before_step", "engine.lane.emptied", "engine.lane.ended")


@pytest.fixture(scope="module")
def paused(make_pairs: MakePair) -> tuple[Pair, Counter[str]]:
    """A pair whose tables are paused, with rows and an ALTER in their lanes, and what was changed. To be copied, not to be run."""
    pair, chance, made = make_pairs(name="counted"), random.Random(8), Counter[str]()
    pair.run_until_current()
    change(pair, chance, made)
    pair.run_until_current()
    ask(pair, "pause")
    for _ in range(3):
        change(pair, chance, made)
    pair.database.run("ALTER TABLE customer ADD COLUMN city TEXT")
    pair.database.notice()
    pair.run_until_current()
    pair.database.run("INSERT INTO customer (id, name, visits) VALUES (-1, 'x', 1)")
    made["customer insert"] += 1
    pair.run_until_current()
    return pair, made


@pytest.mark.parametrize("point", POINTS)
def test_counts_equal_the_changes_made_over_kills_while_tables_are_resumed(
    point: str, paused: tuple[Pair, Counter[str]], make_pair: MakePair, twin_structures: list[int]
) -> None:
    pair, made = make_pair(like=paused[0]), paused[1].copy()
    ask(pair, "resume")
    pair.kill_at(point)
    pair.run_until_current()
    assert pair.differences() == {}
    assert counted(pair) == made
    assert structures(pair) == twin_structures


@pytest.mark.parametrize("point", ["file.commit.after", "engine.batch.applied"])
def test_changes_that_a_killed_run_gave_a_table_are_counted_when_it_is_paused_at_the_next_start(
    point: str, make_pair: MakePair
) -> None:
    pair, chance, made = make_pair(), random.Random(12), Counter[str]()
    pair.run_until_current()
    for _ in range(3):
        change(pair, chance, made)
    pair.kill_at(point)
    ask(pair, "pause")
    for _ in range(3):
        change(pair, chance, made)
    pair.kill_at("engine.offset.before_save")
    pair.run_until_current()
    ask(pair, "resume")
    pair.kill_at("engine.lane.after_step")
    change(pair, chance, made)
    pair.run_until_current()
    assert pair.differences() == {}
    assert counted(pair) == made


def structures(pair: Pair) -> list[int]:
    """How many changes of structure were counted of each table."""
    [file] = pair.replicator.state.glob("default/*/*/state.json")
    tables = json.loads(file.read_text())["metrics"]["tables"]
    return [metrics["counters"].get("target.ddl", 0) for _, metrics in sorted(tables.items())]


@pytest.fixture(scope="module")
def twin_structures(paused: tuple[Pair, Counter[str]], make_pairs: MakePair) -> list[int]:
    """What is counted of changes of structure where nothing is killed."""
    pair = make_pairs(like=paused[0], name="twin")
    ask(pair, "resume")
    pair.run_until_current()
    found = structures(pair)
    assert found == [1, 0], "once, when the target has it"
    return found
