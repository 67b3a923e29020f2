"""A process killed at any time while the source changes: three runs after each kill end equal."""

from __future__ import annotations

import random
import time

from tests.crash.kills import kill, killed
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.database import Writer


def test_three_runs_after_each_of_many_kills_at_random_times_are_equal(make_pair: MakePair) -> None:
    """At every third time the run after the kill is killed as well."""
    pair, chance = make_pair(), random.Random(10)
    transactions = 0
    for number in range(8):
        with Writer(pair.database, random.Random(number)) as writer:
            for _ in range(2 if number % 3 == 0 else 1):
                running = pair.start()
                time.sleep(chance.uniform(0.8, 3))
                kill(running)
        transactions += writer.transactions
        pair.assert_recovered()
    assert transactions > 100


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
