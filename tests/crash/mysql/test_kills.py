"""A process killed while it replicates MySQL or MariaDB, structure and rows changing: three runs after each kill end equal.

The target needs no Spark. Each run after a kill is killed as well; copies of what each kill left go on at the end, all at once.
"""

from __future__ import annotations

import random
import time

from tests.crash import kill_points
from tests.crash.kills import kill
from tests.crash.mysql.pair import MysqlPair
from tests.depth import ALL_CASES, some


def test_three_runs_after_a_kill_at_every_point_of_the_beginning_are_equal(each_pair: MysqlPair) -> None:
    """Rows and structure change between the kills, so that every next plan is another one.

    What is written when all tables are copied comes last.
    """
    last = (".status.", ".offset.")
    points = sorted(kill_points.AT_THE_BEGINNING, key=lambda point: any(part in point for part in last))
    for number, point in enumerate(some(points, 4, name="beginning")):
        each_pair.kill_at(point)
        each_pair.keep()
        each_pair.change_rows()
        if number % 4 == 0:
            each_pair.change_structure()
    each_pair.assert_recovered()


def test_three_runs_after_a_kill_at_every_point_on_the_way_are_equal(mysql_pair: MysqlPair) -> None:
    mysql_pair.assert_nothing_lost()
    for point in some(list(kill_points.ON_THE_WAY), 2, name="on the way"):
        mysql_pair.change_rows()
        mysql_pair.change_structure()
        mysql_pair.kill_at(point)
        mysql_pair.keep()
    mysql_pair.assert_recovered()


def test_three_runs_after_kills_at_random_times_while_structure_and_rows_change_are_equal(each_pair: MysqlPair) -> None:
    chance = random.Random(4)
    with each_pair.changing():
        for _ in range(6 if ALL_CASES else 3):
            running = each_pair.pipeline.replicator.start()
            time.sleep(chance.uniform(0.8, 2.5))
            kill(running)
            each_pair.keep()
    each_pair.assert_recovered()
