"""SQLite into a branch of Iceberg tables, killed beside its commits and beside an edit of the setting; read by `pyiceberg`.

After each kill come three runs with changes of rows and of structure between them. Another program publishes the branch meanwhile.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import StaticTable

from tests.crash.one_process import OneProcess
from tests.crash.sqlite.commands.test_repair import CUSTOMER
from tests.depth import some
from tests.plugins.targets.iceberg.commands.test_kills import IcebergPair
from tests.plugins.targets.iceberg.others import foreign
from tests.plugins.targets.iceberg.test_kills import Shop
from tests.plugins.targets.iceberg.warehouse import Warehouse, newest_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog

_POINTS = (
    "iceberg.files.written",
    "iceberg.commit.before",
    "iceberg.commit.after",
    "iceberg.ddl.before",
    "iceberg.ddl.after",
)


class BranchPair(IcebergPair):
    """A pair whose target has a branch."""

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        assert self.replicator.target is not None
        found = self.branch(table, self.replicator.target[1].get("branch", "main"))
        return Counter(tuple(row.get(name) for name in self.database.columns(table)) for row in found)

    def branch(self, table: str, branch: str) -> list[dict[str, Any]]:
        """The rows of a branch."""
        read = StaticTable.from_metadata(str(newest_metadata(self.lake / "main" / table))).scan().use_ref(branch)
        rows: list[dict[str, Any]] = read.to_arrow().to_pylist()
        return rows

    def choose(self, branch: str) -> None:
        """Edit the setting."""
        assert self.replicator.target is not None
        name, settings = self.replicator.target
        self.replicator.target = (name, {**settings, "branch": branch})
        self.replicator.pipeline.write_text(json.dumps(self.replicator.document()))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[BranchPair]:
    """Not copied yet."""
    shop = Shop(tmp_path)
    pair = BranchPair(shop.database, shop.replicator, random.Random(19))
    pair.lake = shop.lake
    with OneProcess(tmp_path / "process") as pair.process:
        yield pair


def publishes(table: Any, _: Catalog) -> None:
    """Has `main` go on to where the branch is."""
    table.manageSnapshots().fastForwardBranch("main", "audit").commit()


@pytest.mark.timeout(1200)
def test_runs_after_a_kill_beside_a_commit_to_a_branch_are_equal(pair: BranchPair, iceberg_spark: SparkSession) -> None:
    """What was published stays as it was, until it is published again."""
    pair.choose("audit")
    pair.process.kill_at(pair.replicator.document(), "iceberg.snapshot.whole_committed")
    pair.change_rows()
    assert pair.run() == ""
    assert pair.differences() == {}
    for point in some(_POINTS, 2, name="iceberg branch"):
        foreign(Warehouse(pair.lake, iceberg_spark), publishes, CUSTOMER)
        published = len(pair.branch("customer", "main"))
        pair.change_everything() if point == _POINTS[0] else pair.change_rows()
        if ".ddl." in point:
            pair.change_structure()
            pair.change_rows()
        pair.process.kill_at(pair.replicator.document(), point)
        pair.change_rows()
        pair.check(point)
        assert len(pair.branch("customer", "main")) == published
    assert "main" not in StaticTable.from_metadata(str(newest_metadata(pair.lake / "main" / "note"))).metadata.refs


@pytest.mark.timeout(1200)
def test_runs_after_a_kill_at_the_first_commit_to_another_branch_are_equal(pair: BranchPair) -> None:
    """It begins from `main`, goes on from there, and `main` stays as it was; back on `main`, which is older, tables are copied again."""
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    assert pair.run() == ""
    before = {table: len(pair.branch(table, "main")) for table in ("customer", "note")}
    pair.choose("audit")
    pair.change_rows()
    assert pair.run() == "RPL-1260"
    approve(pair)
    point = "iceberg.commit.after"
    pair.process.kill_at(pair.replicator.document(), point)
    pair.change_everything()
    pair.check(point)
    assert {table: len(pair.branch(table, "main")) for table in before} == before
    pair.choose("main")
    pair.change_rows()
    assert pair.run() == "RPL-1260"
    approve(pair)
    pair.process.kill_at(pair.replicator.document(), "iceberg.commit.before")
    pair.change_rows()
    pair.check("iceberg.commit.before")


def approve(pair: BranchPair) -> None:
    """As a person does."""
    plan = pair.replicator.start_command("plan", str(pair.replicator.pipeline)).wait()
    [step] = plan.envelope["data"]["steps"]
    assert "branch" in json.dumps(step)
    done = pair.replicator.start_command("approve", str(pair.replicator.pipeline), plan.envelope["data"]["plan"]).wait()
    assert done.status == 0, done.messages
