"""`replicator table resync` replaces the rows of a table in BigQuery at once, whatever step is killed; readers never see fewer."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

import pytest

from tests.crash.one_process import OneProcess
from tests.end_to_end.commands.row_counter import RowCounter, execute
from tests.end_to_end.replicator import Replicator
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings

_POINTS = (
    "bigquery.beside.loaded",
    "bigquery.commit.before",
    "bigquery.beside.committed",
)
_ROWS = 300


def _count(emulators: Emulators, table: str) -> int:
    ((count,),) = rows(emulators, f"SELECT COUNT(*) FROM {table}")
    return int(str(count))


@pytest.fixture
def dataset(bigquery_emulators: Emulators) -> str:
    bigquery_emulators.gate.clear()
    return f"d{uuid.uuid4().hex[:12]}"


def _hidden(emulators: Emulators, dataset: str) -> list[str]:
    found = rows(emulators, f"SELECT table_name FROM `{PROJECT}`.`{dataset}`.INFORMATION_SCHEMA.TABLES")
    return [str(name) for (name,) in found if str(name).startswith("_replicator_copy_")]


@pytest.mark.timeout(600)
def test_a_copy_is_seen_whole_or_not_at_all_and_what_is_killed_is_done_by_the_next_run(
    bigquery_emulators: Emulators, dataset: str, tmp_path: Path
) -> None:
    database = tmp_path / "shop.db"
    execute(
        database,
        "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO item WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {_ROWS}) SELECT i, 'row ' || i FROM n",
    )
    replicator = Replicator(
        tmp_path,
        ("sqlite", {"path": str(database)}),
        ("bigquery", target_settings(bigquery_emulators, dataset)),
    )
    table = f"`{PROJECT}`.`{dataset}`.item"

    def assert_equal() -> None:
        found = rows(bigquery_emulators, f"SELECT id, name FROM {table}")
        assert sorted((int(str(key)), name) for key, name in found) == sorted(
            execute(database, "SELECT id, name FROM item")
        )

    def resync() -> None:
        rows(bigquery_emulators, f"UPDATE {table} SET name = 'damaged' WHERE id = 2")
        ended = replicator.start_command("table", "resync", str(replicator.pipeline), "item", "--yes").wait()
        assert ended.status == 0, ended.messages

    replicator.until_current()
    with (
        OneProcess(tmp_path / "process") as process,
        RowCounter(partial(_count, bigquery_emulators, table), 0.05) as reader,
    ):
        for number, point in enumerate(_POINTS):
            resync()
            execute(database, f"INSERT INTO item (id, name) VALUES ({1000 + number}, 'beside')")
            process.kill_at(replicator.document(), point)
            for later in range(3):
                execute(
                    database,
                    f"UPDATE item SET name = 'run {number} {later}' WHERE id = 10",
                    *([f"ALTER TABLE item ADD COLUMN c{number} INTEGER"] if later == 1 else []),
                )
                assert process.run(replicator.document()) == ""
                assert_equal()
    assert len(reader.counts) > 50
    assert min(reader.counts) >= _ROWS
    assert reader.counts == sorted(reader.counts)
    assert len(_hidden(bigquery_emulators, dataset)) <= 1, "that of the run which was killed after its commit expires"
