"""A change of structure after an idle rotation reaches the copy, also when the process is killed between the two."""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.mysql.database.pipeline import MysqlPipeline


@pytest.mark.parametrize("statement", ["TRUNCATE item", "ALTER TABLE item ADD COLUMN place varchar(10) DEFAULT 'here'"])
def test_ddl_after_an_idle_rotation_arrives_after_a_kill(each_pipeline: MysqlPipeline, statement: str) -> None:
    """The rows before the rotation are committed at the heartbeat after it, and their offset is not saved."""
    pipeline = each_pipeline.with_settings(batch={"maxIntervalSeconds": 4})
    pipeline.assert_nothing_lost()
    running = pipeline.replicator.start(REPLICATOR_FAILPOINTS="engine.table.after_apply=kill")
    running.said("streaming")
    pipeline.execute("INSERT INTO item (id) VALUES (5000)")
    time.sleep(0.5)
    pipeline.execute("FLUSH BINARY LOGS")
    assert running.wait().status == -9
    pipeline.execute(statement, "INSERT INTO item (id) VALUES (5001)")
    pipeline = each_pipeline
    for number in range(3):
        pipeline.assert_nothing_lost()
        pipeline.execute(
            f"INSERT INTO item (id) VALUES ({6000 + number})",
            f"ALTER TABLE item ADD COLUMN later{number} int DEFAULT {number}",
        )
    pipeline.assert_nothing_lost()
