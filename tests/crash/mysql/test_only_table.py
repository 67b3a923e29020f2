"""The log cannot be read for a pipeline's only table, and a process is killed while `table resync` makes it whole."""

from __future__ import annotations

from dataclasses import replace

from tests.crash import kill_points
from tests.crash.mysql.pair import MysqlPair
from tests.depth import some

_POINTS = ("engine.snapshot.planned", "engine.snapshot.finished", *kill_points.OF_RELEASE)


def test_runs_after_a_kill_while_the_only_table_is_copied_again_are_equal(mysql_pair: MysqlPair) -> None:
    """Each time a statement is in the log that the reader cannot follow, then a change of structure."""
    mysql_pair.pipeline.execute("DROP TABLE note")
    database = mysql_pair.pipeline.database.name
    pipeline = mysql_pair.pipeline.with_settings(tables=[{"database": database, "table": "item"}])
    pair = MysqlPair(replace(pipeline, tables=("item",)))
    replicator = pipeline.replicator
    replicator.until_current()
    for number, point in enumerate(some(_POINTS, 2, name="only table")):
        pipeline.execute(
            "SET SESSION binlog_format = STATEMENT",
            f"UPDATE item SET name = 'statement {number}' WHERE id % 2 = 0",
            "SET SESSION binlog_format = ROW",
            f"ALTER TABLE item ADD COLUMN c{number} int DEFAULT {number}",
            "DELETE FROM item WHERE id = (SELECT * FROM (SELECT min(id) FROM item) AS least)",
        )
        replicator.run("--until-current")
        error = replicator.run("--until-current").error
        assert error["code"] == "RPL-3793"
        assert "only table" not in error["hint"]
        assert replicator.follow(error, "table resync").status == 0
        pair.kill_at(point)
        pipeline.execute("INSERT INTO item (id) SELECT max(id) + 1 FROM item")
        replicator.run("--until-current")
        replicator.until_current()
        assert pair.differences() == ""
    for number in range(3):
        pipeline.execute(
            f"ALTER TABLE item ADD COLUMN d{number} int DEFAULT {number}",
            "INSERT INTO item (id) SELECT max(id) + 1 FROM item",
        )
        pair.assert_nothing_lost()
