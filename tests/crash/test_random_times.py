"""A process killed at any time, again and again while the source changes, ends equal once it is left alone."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.crash.conftest import MakePair, kill, killed
from tests.crash.shop import Trade
from tests.end_to_end.comparison import assert_equal_copies
from tests.end_to_end.postgres import workload
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase


def test_ten_kills_at_random_times_while_the_source_changes(make_pair: MakePair) -> None:
    pair, chance = make_pair(), random.Random(10)
    with Trade(pair.shop, random.Random(1)) as trade:
        for _ in range(10):
            running = pair.start()
            time.sleep(chance.uniform(0.8, 3))
            kill(running)
    assert trade.transactions > 100
    pair.assert_mended()


def test_without_the_tables_own_progress_random_kills_are_noticed(make_pair: MakePair) -> None:
    """The twin: every second kill falls between data and offset, where such kills do harm."""
    pair, chance = make_pair(broken="progress"), random.Random(2)
    with Trade(pair.shop, random.Random(3), pause=0.005):
        for _ in range(3):
            killed(pair.start(point="engine.offset.before_save"), "engine.offset.before_save")
            running = pair.start()
            running.said(
                "streaming"
            )  # its first offset is saved: the next kill between data and offset is behind a batch
            time.sleep(chance.uniform(0, 1))
            kill(running)
    pair.recover()
    assert "note" in pair.differences()


@pytest.mark.timeout(600)
def test_three_kills_of_postgres_into_delta_under_concurrent_writers(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """One in the first run, wherever it is; one while it streams; one while it meets six schema changes."""
    replicator = Replicator(tmp_path, postgres_source(postgres_database))
    chance = random.Random(7)
    with postgres_database.connect() as connection:
        workload.create(connection)
        with workload.Writers(postgres_database, seed=7) as writers:
            for ready in ("snapshot", "streaming"):
                running = replicator.start()
                running.said(ready)
                time.sleep(chance.uniform(0, 4))
                kill(running)
            running = replicator.start()
            running.said("streaming")
            for change in workload.STRUCTURE_CHANGES:
                workload.change_structure(connection, change)
                time.sleep(chance.uniform(0, 1))
            kill(running)
        assert writers.transactions > 100
        replicator.until_current()
        assert assert_equal_copies(connection, replicator.lake, workload.TABLES) > 1000
