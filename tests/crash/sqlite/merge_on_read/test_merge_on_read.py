"""Delta in the mode `merge-on-read`, as a person runs it: killed at its steps, with three runs and changes of structure after each, and beside the commands that look at rows.

What readers see is computed by DuckDB's SQL from what `deltalake` reads, by the table's own properties.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest

from tests.crash.one_process import OneProcess
from tests.crash.sqlite.commands.test_rewind import offsets
from tests.crash.sqlite.conftest import MakePair
from tests.crash.sqlite.lost_log.test_heal import lose_log
from tests.crash.sqlite.pair import Pair
from tests.depth import some
from tests.end_to_end.replicator import Ended
from tests.plugins.targets.delta.merge_on_read.latest import read_latest
from tests.services.spark import kept_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = (
    "delta.files.written",
    "delta.commit.before",
    "delta.commit.after",
    "engine.offset.before_save",
    "delta.ddl.before",
    "delta.ddl.after",
)
AT_THE_BEGINNING = ("delta.snapshot.committed", "delta.snapshot.finished")


@pytest.fixture
def pair(make_pair: MakePair) -> Pair:
    """Of the two tables the one with a key is replicated."""
    made = make_pair(delta=True)
    made.replicator.lake_settings = {"mode": "merge-on-read"}
    only = [{"database": "main", "table": "customer"}]
    made.replicator.settings = {**made.replicator.settings, "tables": only}
    made.replicator.source = ("sqlite", {**made.replicator.source[1], "chunkRows": 40})
    return made


def table_of(pair: Pair) -> Path:
    return pair.replicator.lake / "main" / "customer"


def assert_equal(pair: Pair) -> None:
    names = pair.database.columns("customer")
    seen = Counter(tuple(one[name] for name in names) for one in read_latest(table_of(pair)))
    assert seen == pair.database.rows("customer")


def command(pair: Pair, name: str, *arguments: str) -> Ended:
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    return pair.replicator.start_command(name, str(pair.replicator.pipeline), *arguments).wait()


@pytest.mark.timeout(900)
def test_three_runs_after_a_kill_at_each_step_are_read_as_the_source(pair: Pair, tmp_path: Path) -> None:
    with OneProcess(tmp_path / "process") as process:
        for point in AT_THE_BEGINNING:
            process.kill_at(pair.replicator.document(), point)
            pair.change_rows(10)
        assert process.run(pair.replicator.document()) == ""
        assert_equal(pair)
        for number, point in enumerate(some(POINTS, 2, name="merge on read")):
            pair.change_rows(20)
            if "ddl" in point:
                pair.database.run(f"ALTER TABLE customer ADD COLUMN city_{number} TEXT DEFAULT 'Rome'")
                pair.database.notice()
                pair.change_rows(3)
            process.kill_at(pair.replicator.document(), point)
            for _ in range(3):
                assert process.run(pair.replicator.document()) == "", point
                assert_equal(pair)
                pair.change_rows()
                pair.change_structure()
                pair.database.notice()
                pair.change_rows()


def test_the_examples_of_the_seed_arrive_from_a_database(pair: Pair) -> None:
    """Watermark `visits`, tombstone `deleted`: of two rows of a key the one with the larger watermark is read, of a tombstone none."""
    pair.replicator.lake_settings = {"mode": "merge-on-read", "watermarkKeys": ["visits"], "tombstoneKey": "deleted"}
    pair.database.run("DELETE FROM customer", "INSERT INTO customer VALUES (1, 'a', 100), (2, 'a', 100)")
    pair.run_until_current()
    pair.database.run("UPDATE customer SET visits = 200, name = 'b' WHERE id = 1", "DELETE FROM customer WHERE id = 2")
    pair.run_until_current()
    pair.database.run("UPDATE customer SET visits = 150, name = 'late' WHERE id = 1")
    pair.run_until_current()
    assert [(one["id"], one["visits"], one["name"]) for one in read_latest(table_of(pair))] == [(1, 200, "b")]
    history = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table_of(pair))))
    rows = history.execute("select id, visits, deleted from t").read_all()
    found = sorted(zip(*(column.to_pylist() for column in map(rows.column, range(3))), strict=True))
    assert found == [(1, 100, False), (1, 150, False), (1, 200, False), (2, 100, False), (2, 100, True)]


@pytest.mark.timeout(600)
def test_rows_are_compared_explained_repaired_healed_and_brought_back(pair: Pair, spark: SparkSession) -> None:
    with kept_java.shared():
        pair.replicator.source = ("sqlite", {**pair.replicator.source[1], "keepChangesHours": 1})
        pair.run_until_current()
        then, (offset, *_) = read_latest(table_of(pair)), offsets(pair)
        pair.change_rows(20)
        pair.run_until_current()
        assert command(pair, "verify").status == 0
        place = f"delta.`{table_of(pair)}`"
        spark.sql(f"DELETE FROM {place} WHERE id = 60")
        damaged = "SELECT id, 'damaged', visits, 99999, _is_deleted, _source_timestamp"
        spark.sql(f"INSERT INTO {place} {damaged} FROM {place} WHERE id = 61")
        explained = command(pair, "explain-row", "customer", "id=61").envelope["data"]
        assert explained["differing"] == ["name"], explained
        assert command(pair, "verify").status != 0
        repaired = command(pair, "verify", "--repair", "--yes")
        assert repaired.status == 0, repaired.messages
        assert_equal(pair)
        back = command(pair, "rewind", "--yes", "--offset", offset)
        assert back.status == 0, back.messages
        assert in_order(read_latest(table_of(pair))) == in_order(then)
        pair.run_until_current()
        assert_equal(pair)
        lose_log(pair)
        healed = command(pair, "heal", "--yes")
        assert healed.status == 0, healed.messages
        pair.change_rows(10)
        pair.run_until_current()
        assert_equal(pair)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda one: int(one["id"]))
