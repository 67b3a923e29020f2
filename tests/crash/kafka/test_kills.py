"""A process killed while it replicates Kafka's topics, structure and rows changing: three runs after each kill end equal.

The target needs no Spark. Each run after a kill is killed as well; copies of what each kill left go on at the end, all at once.
"""

from __future__ import annotations

import random
import time

from tests.crash.kafka.pair import KafkaPair
from tests.crash.kills import harms, kill
from tests.depth import ALL_CASES, some

_POINTS = (
    "engine.batch.gathered",
    "engine.table.after_apply",
    "engine.batch.applied",
    "engine.offset.before_save",
    "engine.offset.after_save",
)


def test_columns_that_came_while_nothing_ran_are_not_lost(pair: KafkaPair) -> None:
    pair.assert_nothing_lost()
    pair.change_structure()
    pair.assert_nothing_lost()


def test_three_runs_after_kills_around_commits_and_offsets_are_equal(pair: KafkaPair) -> None:
    """The points where a source decides what comes again; the tests with SQLite try the engine's others."""
    pair.assert_nothing_lost()
    for point in some(_POINTS, 1, name="commits"):
        pair.change_rows()
        pair.change_structure()
        pair.kill_at(point)
        pair.keep()
    pair.assert_recovered()


def test_three_runs_after_kills_in_changes_of_structure_are_equal(pair: KafkaPair) -> None:
    """The records announce each again, under the number it had."""
    pair.assert_nothing_lost()
    for point in some(("engine.ddl.before_apply", "engine.ddl.after_apply", "engine.ddl.after_apply"), 2, name="ddl"):
        pair.change_structure()
        pair.kill_at(point)
        pair.keep()
    pair.assert_recovered()


def test_three_runs_after_kills_at_random_times_while_structure_and_rows_change_are_equal(pair: KafkaPair) -> None:
    chance = random.Random(3)
    with pair.tables.changing(random.Random(4)):
        for _ in range(6 if ALL_CASES else 3):
            running = pair.replicator.start()
            time.sleep(chance.uniform(0.8, 2.5))
            kill(running)
            pair.keep()
    pair.assert_recovered()


def test_where_the_offset_is_saved_before_the_data_a_kill_loses_rows(pair: KafkaPair) -> None:
    """The twin of every kill between the two."""
    pair.assert_nothing_lost()
    pair.change_rows()
    other = pair.twin("order")
    for each in (pair, other):
        each.kill_at("engine.batch.gathered")
    other.run_until_current()
    assert other.differences()["note"][0] > 0
    harms.append("order")
    pair.assert_recovered()
