"""A process killed at any time while the source changes: three runs after each kill end equal."""

from __future__ import annotations

import random
import time

from tests.crash.kills import kill, killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.database import Writer
from tests.crash.sqlite.pair import Pair


def test_three_runs_after_each_of_many_kills_at_random_times_are_equal(make_pair: MakePair) -> None:
    """Every kill is followed by three whole runs."""
    pair, chance = make_pair(), random.Random(10)
    for number in range(7):
        with Writer(pair.database, random.Random(number)) as writer:
            _kill_at_random(pair, chance)
            writer.wait_for(15)
        pair.assert_recovered()


def test_three_runs_after_a_kill_of_the_run_that_recovers_from_another_are_equal(make_pair: MakePair) -> None:
    """The harder history: no run ends between the three kills, so each run takes over what the one before had begun."""
    pair, chance = make_pair(), random.Random(12)
    with Writer(pair.database, random.Random(20)):
        for _ in range(3):
            _kill_at_random(pair, chance)
    pair.assert_recovered()


def _kill_at_random(pair: Pair, chance: random.Random) -> None:
    running = pair.start()
    time.sleep(chance.uniform(0.8, 3))
    kill(running)


def test_without_the_tables_own_progress_random_kills_do_harm(make_pair: MakePair) -> None:
    """The twin: every second kill falls between data and offset, where such kills do harm."""
    pair, chance = make_pair(removed="progress"), random.Random(2)
    with Writer(pair.database, random.Random(3), pause=0.005):
        for _ in range(3):
            killed(pair.start(point="engine.offset.before_save"), "engine.offset.before_save")
            running = pair.start()
            running.said(
                "streaming"
            )  # its first offset is saved: the next kill between data and offset follows a batch
            time.sleep(chance.uniform(0, 1))
            kill(running)
    pair.run_until_current()
    assert "note" in pair.differences()
