"""`rewind` and `verify --repair` into Iceberg that are killed at the target's own steps are finished by the next run; read by `pyiceberg`.

After each kill come three runs with changes of rows and of structure between them. Without the part of the recovery that finishes them
the next run does harm.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.kills import harms, killed
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.sqlite.commands.test_repair import CUSTOMER, ask, outcome
from tests.crash.sqlite.commands.test_rewind import offsets
from tests.crash.sqlite.pair import Pair
from tests.crash.three_runs import ThreeRuns
from tests.depth import some
from tests.plugins.targets.iceberg.others import compacts, foreign
from tests.plugins.targets.iceberg.test_kills import Shop
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog


class IcebergPair(Pair):
    """A database and its replicator into Iceberg, whose runs that are not killed are in one process."""

    lake: Path
    process: OneProcess

    def run(self, without: str = "") -> str:
        """Run to the end; the code of its error, empty when it went well."""
        return self.process.run(self.replicator.document(), without)

    def check(self, point: str) -> None:
        """Three runs follow; after each, source and target are equal."""
        copy = CopyInProcess(self.process, self.replicator.document, self.differences)
        try:
            ThreeRuns(self, [copy]).check()
        except AssertionError as error:
            raise AssertionError(f"after a kill at {point}") from error

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        found = Shop.rows_at(self.lake, table)
        return Counter(tuple(row.get(name) for name in self.database.columns(table)) for row in found)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[IcebergPair]:
    """Both tables are copied, and equal."""
    shop = Shop(tmp_path)
    shop.replicator.source = ("sqlite", {**shop.replicator.source[1], "keepChangesHours": 1})
    pair = IcebergPair(shop.database, shop.replicator, random.Random(19))
    pair.lake = shop.lake
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    with OneProcess(tmp_path / "process") as pair.process:
        assert pair.run() == ""
        assert pair.differences() == {}
        yield pair


@pytest.mark.timeout(900)
def test_runs_after_a_kill_of_a_rewind_are_equal(pair: IcebergPair) -> None:
    """One of the two tables has gone back already, or none has."""
    pair.change_rows()
    assert pair.run() == ""
    offset = offsets(pair)[0]
    for point in some(("iceberg.rewind.before", "iceberg.rewind.after"), 1, name="iceberg rewind"):
        pair.change_rows()
        assert pair.run() == ""
        command = ("rewind", str(pair.replicator.pipeline), "--yes", "--offset", offset)
        killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
        pair.change_structure()
        pair.change_rows()
        if point.endswith("after"):
            assert pair.run(without="rewound") or pair.differences()
            harms.append("rewound")
        pair.check(point)


@pytest.mark.timeout(900)
def test_runs_after_a_kill_of_a_repair_are_equal(pair: IcebergPair, iceberg_spark: SparkSession) -> None:
    """A request that is ended before it is carried out, which is the part that is removed, leaves the rows lost."""
    point = "iceberg.repair.before"
    damage(pair, iceberg_spark, removes_all)
    ask_for_all(pair, iceberg_spark)
    pair.process.kill_at(pair.replicator.document(), point, without="request")
    assert pair.run() == ""
    assert pair.lost()["customer"] > 0
    harms.append("request")
    for point in some(("iceberg.repair.before", "iceberg.repair.after"), 2, name="iceberg repair"):
        pair.change_rows()
        request_id = ask_for_all(pair, iceberg_spark)
        pair.process.kill_at(pair.replicator.document(), point)
        pair.change_rows()
        assert pair.run() == ""
        [done] = outcome(pair, request_id).data["tables"]
        assert "error" not in done
        pair.check(point)
        damage(pair, iceberg_spark, removes_all)


@pytest.mark.timeout(900)
def test_runs_after_a_kill_once_another_programs_commit_is_followed_are_equal(
    pair: IcebergPair, iceberg_spark: SparkSession
) -> None:
    point = "iceberg.others.followed"
    damage(pair, iceberg_spark, compacts)
    assert pair.replicator.target is not None
    name, settings = pair.replicator.target
    pair.replicator.target = (name, {**settings, "expireIntervalSeconds": 1, "snapshotsKept": 10})
    pair.process.kill_at(pair.replicator.document(), point, until_current=False)
    pair.change_rows()
    pair.check(point)


def removes_all(table: Any, catalog: Catalog) -> None:
    """Rows are gone that the source has."""
    table.newDelete().deleteFromRowFilter(catalog.jvm[".expressions.Expressions"].alwaysTrue()).commit()


def ask_for_all(pair: IcebergPair, spark: SparkSession) -> str:
    """Ask for all customers of the source; the request."""
    return ask(pair, spark, [row[0] for row in pair.database.rows("customer")])


def damage(pair: IcebergPair, spark: SparkSession, step: Callable[[Any, Catalog], None]) -> None:
    """Another program commits to the customers."""
    foreign(Warehouse(pair.lake, spark), step, CUSTOMER)
