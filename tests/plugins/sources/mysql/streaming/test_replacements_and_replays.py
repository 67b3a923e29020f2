"""A table is replaced by a new one, and a replay knows the new one by then: each name ends with its own table's rows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.tables.table_store import TableRecord
from replicator_sdk import TableId
from replicator_sdk.errors import FencedError
from tests.plugins.sources.mysql.pipeline import Pipeline
from tests.runtime.engine import in_memory_target
from tests.services.mysql.server import MysqlDatabase


@pytest.mark.parametrize("step", ["ddl", "ddl applied"])
def test_a_replaced_table_is_copied_though_the_run_ends_beside_the_event_and_the_replay_sees_a_rename(
    step: str, mysql_and_mariadb: MysqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of the first run does not know the new table; that of the second one does, since its copy has ended."""
    db = mysql_and_mariadb
    _create(db, "a", "old")
    pipeline = Pipeline(db, tmp_path)
    pipeline.run()
    _create(db, "b", "new")
    db.execute("RENAME TABLE a TO x, b TO a, x TO b")
    _dies_when_copied(pipeline, monkeypatch, step, "a", copied="b")
    for number in range(3):
        pipeline.run()
        assert pipeline.target_rows() == pipeline.source_rows()
        for name in ("a", "b"):
            db.execute(f"INSERT INTO {name} (id, v) SELECT max(id) + 1, min(v) FROM {name}")
        if number == 1:
            db.execute("ALTER TABLE a ADD COLUMN later int")
            db.execute("RENAME TABLE a TO x, b TO a, x TO b")


def test_a_table_is_followed_under_its_new_name_though_the_one_that_took_its_former_name_is_dropped(
    mysql_and_mariadb: MysqlDatabase, tmp_path: Path
) -> None:
    """The replay from before the exchange does not know the dropped table, and its partner has the new name nevertheless."""
    db = mysql_and_mariadb
    for name in ("a", "b", "c", "d"):
        _create(db, name, name)
    pipeline = Pipeline(db, tmp_path)
    pipeline.run()
    db.execute("RENAME TABLE a TO x, b TO a, x TO b")
    db.execute("DROP TABLE a")
    db.execute("RENAME TABLE b TO x, c TO b, x TO c")
    for number in range(3):
        pipeline.run()
        source = pipeline.source_rows()
        assert {name: pipeline.target_rows().get(name) for name in source} == source
        for name in ("b", "c", "d"):
            db.execute(f"INSERT INTO {name} (id, v) SELECT max(id) + 1, min(v) FROM {name}")
        if number == 1:
            db.execute("ALTER TABLE c ADD COLUMN later int")


def _dies_when_copied(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, step: str, table: str, copied: str) -> None:
    """A run that ends at this step of `table`, after the copy of `copied` has ended."""
    ended, end_copy = threading.Event(), TableLifecycle.end_copy

    def end(lifecycle: TableLifecycle, record: TableRecord) -> None:
        end_copy(lifecycle, record)
        if record.table.table == copied:
            ended.set()

    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == (step, table):
            assert ended.wait(120)
            raise FencedError("the process dies", code="RPL-8001", table=str(where))

    in_memory_target.STORAGE.fault = fault
    with monkeypatch.context() as patch:
        patch.setattr(TableLifecycle, "end_copy", end)
        with pytest.raises(FencedError):
            pipeline.run()
    in_memory_target.STORAGE.fault = lambda at, where: None


def _create(db: MysqlDatabase, name: str, content: str) -> None:
    db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20))")
    db.execute(f"INSERT INTO {name} VALUES (1, '{content}')")
