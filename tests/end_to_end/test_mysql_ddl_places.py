"""A change of structure behind an idle rotation reaches the copy, also when the process is killed between the two."""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.mysql_pair import MysqlPair


@pytest.mark.parametrize("statement", ["TRUNCATE item", "ALTER TABLE item ADD COLUMN place varchar(10) DEFAULT 'here'"])
def test_ddl_behind_an_idle_rotation_arrives_after_a_kill(both_pair: MysqlPair, statement: str) -> None:
    """The rows before the rotation are committed at the heartbeat behind it, and their offset is not saved."""
    pair = both_pair.with_settings(batch={"maxIntervalSeconds": 4})
    pair.assert_nothing_lost()
    running = pair.replicator.start(REPLICATOR_FAILPOINTS="engine.table.after_apply=kill")
    running.said("streaming", 60)
    pair.execute("INSERT INTO item (id) VALUES (5000)")
    time.sleep(0.5)
    pair.execute("FLUSH BINARY LOGS")
    assert running.wait(60).status == -9
    pair.execute(statement, "INSERT INTO item (id) VALUES (5001)")
    pair = both_pair
    for number in range(3):
        pair.assert_nothing_lost()
        pair.execute(
            f"INSERT INTO item (id) VALUES ({6000 + number})",
            f"ALTER TABLE item ADD COLUMN later{number} int DEFAULT {number}",
        )
    pair.assert_nothing_lost()
