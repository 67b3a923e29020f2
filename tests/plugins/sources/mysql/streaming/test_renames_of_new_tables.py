"""Tables exchange names with a new one that the replicator has not taken in yet: each name ends with its own table's rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.plugins.sources.mysql.pipeline import Pipeline
from tests.services.mysql.server import MysqlDatabase

NAMES = ("a", "b", "d", "gone")
EXCHANGES = {
    "two": ["RENAME TABLE a TO x, b TO a, x TO b"],
    "two, the new one first": ["RENAME TABLE b TO x, a TO b, x TO a"],
    "three": ["RENAME TABLE a TO x, b TO a, d TO b, x TO d"],
    "two, then three": ["RENAME TABLE a TO x, b TO a, x TO b", "RENAME TABLE d TO x, b TO d, a TO b, x TO a"],
}


@pytest.mark.parametrize("statements", EXCHANGES.values(), ids=EXCHANGES)
def test_names_exchanged_with_a_new_table_that_waits_have_their_own_rows(
    statements: Sequence[str], mysql_and_mariadb: MysqlDatabase, tmp_path: Path
) -> None:
    """The saved offset passes the statements by which the new table got its name, so a replay does not know of it."""
    db = mysql_and_mariadb
    for name in NAMES:
        _create(db, name, name)
    pipeline = Pipeline(db, tmp_path)
    pipeline.document["batch"]["maxRows"] = 1
    pipeline.run()
    db.execute("RENAME TABLE b TO c")  # the name is a former one, so that the new table waits
    _create(db, "b", "new")
    _write(db, "a")
    for statement in statements:
        db.execute(statement)
        for name in ("a", "b", "d"):
            _write(db, name)
    db.execute("DROP TABLE gone")  # the catalogue lacks a table, so that `c` waits
    for _ in range(2):
        pipeline.run()
        source = pipeline.source_rows()
        assert {name: pipeline.target_rows().get(name) for name in source} == source
        for name in ("a", "b", "c", "d"):
            _write(db, name)


def _create(db: MysqlDatabase, name: str, content: str) -> None:
    db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20))")
    db.execute(f"INSERT INTO {name} VALUES (1, '{content}')")


def _write(db: MysqlDatabase, name: str) -> None:
    db.execute(f"INSERT INTO {name} SELECT max(id) + 1, min(v) FROM {name}")
