"""A table that another program put in the place of the replicator's is noticed, in each mode, though its position is stored apart from it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator_sdk.errors import NeedsUserError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.consumer import BigQueryConsumer
from replicator_target_bigquery.tables import catalogue, target_table
from tests.plugins.targets.bigquery.batch.test_moved_rows import MODES
from tests.plugins.targets.bigquery.merge_flush.support.projects import settle
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, at, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.test_engine import pipeline_of
from tests.services.bigquery.emulators import Emulators

_LOG = "_replicator_commits"


def _clone(project: Project, table: str) -> None:
    project.select(f"DROP TABLE {{d}}.{table}")
    project.select(f"CREATE TABLE {{d}}.{table} CLONE {{d}}.backup")


def _replace(project: Project, table: str) -> None:
    project.select(f"CREATE OR REPLACE TABLE {{d}}.{table} AS SELECT * FROM {{d}}.backup")


def _create_again(project: Project, table: str) -> None:
    project.select(f"DROP TABLE {{d}}.{table}")
    project.select(f"CREATE TABLE {{d}}.{table} AS SELECT * FROM {{d}}.backup")


RESTORES: dict[str, Callable[[Project, str], None]] = {"clone": _clone, "replace": _replace, "create": _create_again}


def _back_up(project: Project, table: str) -> None:
    project.select(f"CREATE OR REPLACE TABLE {{d}}.backup AS SELECT * FROM {{d}}.{table}")


def _progress(consumer: BigQueryConsumer, table: TableId = KEYED.table) -> TableProgress:
    found = consumer.progress(table)
    assert found is not None
    return found


def _fill(project: Project) -> None:
    """One run: a table with two batches, and a copy of it as it was after the first."""
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    settle(consumer)
    _back_up(project, "customers")
    consumer.apply_batch(batch(2, [insert(row(2))]))
    settle(consumer)
    assert not _progress(consumer).replaced
    consumer.stop()


@pytest.mark.parametrize(
    ("mode", "restore"), [("batch", "replace"), ("batch", "clone"), ("merge-flush", "create"), ("cdc", "replace")]
)
def test_an_older_state_of_a_table_is_noticed_by_the_next_run(
    bigquery_emulators: Emulators, mode: str, restore: str
) -> None:
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    _fill(project)
    RESTORES[restore](project, "customers")
    for epoch in (2, 3):
        later = project.consumer(epoch=epoch)
        found = _progress(later)
        assert found.replaced
        assert found.position == at(2)
        later.stop()


@pytest.mark.parametrize("mode", MODES)
def test_it_is_noticed_while_a_run_goes_on(
    bigquery_emulators: Emulators, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (catalogue, target_table):
        monkeypatch.setattr(module, "LISTED_SECONDS", 0)
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    _fill(project)
    consumer = project.consumer(epoch=2)
    consumer.apply_batch(batch(3, [insert(row(3))], epoch=2))
    settle(consumer)
    _replace(project, "customers")

    def apply() -> None:
        consumer.apply_batch(batch(4, [insert(row(4))], epoch=2))
        settle(consumer)

    with pytest.raises(SnapshotNeededError, match="RPL-6578"):
        apply()
    consumer.stop()


@pytest.mark.parametrize("mode", MODES)
def test_what_the_replicator_does_itself_replaces_no_table(bigquery_emulators: Emulators, mode: str) -> None:
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    _fill(project)
    consumer = project.consumer(epoch=2)
    consumer.apply_ddl(ddl(3, DDLOperation.TRUNCATE_TABLE))
    assert not _progress(consumer).replaced
    consumer.begin_snapshot(KEYED, "again", at(4))
    consumer.finish_snapshot(KEYED, "again", at(4))
    assert not _progress(consumer).replaced
    consumer.apply_ddl(alter(5, KEYED, Alter(AlterKind.DROP_COLUMN, previous=KEYED["note"])))
    assert not _progress(consumer).replaced
    consumer.stop()
    later = project.consumer(epoch=3)
    assert not _progress(later).replaced
    later.stop()


@pytest.mark.parametrize("mode", ["batch", "cdc"])
def test_a_new_copy_takes_a_replaced_table_over(bigquery_emulators: Emulators, mode: str) -> None:
    bigquery_emulators.gate.clear()
    project = MODES[mode](bigquery_emulators)
    _fill(project)
    _replace(project, "customers")
    consumer = project.consumer(epoch=2)
    assert _progress(consumer).replaced
    assert consumer.begin_snapshot(KEYED, "again", at(3)) == frozenset()
    assert project.count("customers") == 0
    consumer.finish_snapshot(KEYED, "again", at(3))
    consumer.apply_batch(batch(4, [insert(row(4))], epoch=2))
    settle(consumer)
    assert not _progress(consumer).replaced
    assert project.count("customers") == 1
    consumer.stop()


def test_chunks_of_a_table_that_was_replaced_meanwhile_count_no_more(project: Project) -> None:
    consumer = project.consumer()
    consumer.begin_snapshot(KEYED, "plan", at(1))
    consumer.stop()
    project.select("CREATE OR REPLACE TABLE {d}.backup AS SELECT * FROM {d}.customers")
    _replace(project, "customers")
    consumer = project.consumer(epoch=2)
    commits = project.select(f"SELECT COUNT(*) FROM {{d}}.{_LOG}")
    consumer.begin_snapshot(KEYED, "plan", at(1))
    assert project.select(f"SELECT COUNT(*) FROM {{d}}.{_LOG}") != commits, "begun from scratch"
    assert not _progress(consumer).replaced
    consumer.stop()


def test_a_dataset_that_was_copied_with_its_commit_log_is_as_it_was(project: Project) -> None:
    _fill(project)
    for table in ("customers", _LOG):
        _back_up(project, table)
        RESTORES["create"](project, table)
    for epoch in (2, 3):  # the first commit stores what is there from then on
        consumer = project.consumer(epoch=epoch)
        assert not _progress(consumer).replaced
        consumer.apply_batch(batch(1 + epoch, [insert(row(1 + epoch))], epoch=epoch))
        consumer.stop()
    _back_up(project, "customers")
    _replace(project, "customers")
    consumer = project.consumer(epoch=4)
    assert _progress(consumer).replaced, "from the first commit on the copied tables count"
    consumer.stop()


def test_a_commit_log_of_an_earlier_release_says_nothing_until_the_next_commit(project: Project) -> None:
    _fill(project)
    project.select(
        f"UPDATE {{d}}.{_LOG} SET progress = REGEXP_REPLACE(progress, r', \"place\": .[0-9]+, [0-9]+.', '') WHERE TRUE"
    )
    assert project.select(f"SELECT COUNT(*) FROM {{d}}.{_LOG} WHERE progress LIKE '%place%'") == [["0"]]
    consumer = project.consumer(epoch=2)
    assert not _progress(consumer).replaced
    consumer.apply_batch(batch(3, [insert(row(3))], epoch=2))
    consumer.stop()
    _replace(project, "customers")
    consumer = project.consumer(epoch=3)
    assert _progress(consumer).replaced
    consumer.stop()


def test_an_alter_of_a_replaced_table_is_refused(project: Project) -> None:
    _fill(project)
    _replace(project, "customers")
    consumer = project.consumer(epoch=2)
    with pytest.raises(SnapshotNeededError, match="RPL-6578"):
        consumer.apply_ddl(alter(3, KEYED, Alter(AlterKind.DROP_COLUMN, previous=KEYED["note"])))
    assert _progress(consumer).replaced
    consumer.stop()


def test_a_view_in_the_place_of_a_table_is_neither_dropped_nor_written(project: Project) -> None:
    _fill(project)
    project.select("DROP TABLE {d}.customers")
    project.select("CREATE VIEW {d}.customers AS SELECT * FROM {d}.backup")
    consumer = project.consumer(epoch=2)
    assert _progress(consumer).replaced
    with pytest.raises(NeedsUserError, match="RPL-6524"):
        consumer.begin_snapshot(KEYED, "again", at(3))
    assert project.count("customers") == 1
    consumer.stop()


def _replicate(pipeline: Path) -> str:
    command = [str(Path(sys.executable).with_name("replicator")), "run", str(pipeline), "--until-current"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.timeout(1800)
def test_a_quiet_table_in_an_older_state_is_copied_again_and_three_runs_later_all_are_equal(
    project: Project, tmp_path: Path
) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    shop.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customers VALUES (1, 'a'), (2, 'b');"
        "CREATE TABLE notes (id INTEGER PRIMARY KEY); INSERT INTO notes VALUES (1);"
    )
    pipeline = pipeline_of(project, tmp_path)

    def held() -> list[list[Any]]:
        return project.select("SELECT id, name FROM {d}.customers ORDER BY id")

    _replicate(pipeline)
    _back_up(project, "customers")
    shop.executescript("UPDATE customers SET name = 'c' WHERE id = 1; DELETE FROM customers WHERE id = 2;")
    assert "RPL-4110" not in _replicate(pipeline)
    _replace(project, "customers")
    assert held() == [["1", "a"], ["2", "b"]]
    shop.execute("INSERT INTO notes VALUES (2)")
    messages = _replicate(pipeline)
    assert held() == [["1", "c"]]
    assert "RPL-4110" in messages
    for number in range(3):
        shop.executescript(
            f"INSERT INTO customers (id, name) VALUES ({10 + number}, 'x'); ALTER TABLE customers ADD COLUMN extra{number} TEXT"
        )
        assert "RPL-4110" not in _replicate(pipeline)
        assert len(held()) == 2 + number
    shop.close()
