"""SQLite into merge-on-read tables, killed beside files, commits, changes of structure and compaction; read by `pyiceberg` and DuckDB.

After each kill come three runs with changes of rows and of structure between them.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from tests.crash.one_process import OneProcess
from tests.depth import some
from tests.plugins.targets.iceberg.commands.test_kills import IcebergPair
from tests.plugins.targets.iceberg.test_kills import Shop
from tests.plugins.targets.iceberg.warehouse import newest_metadata
from tests.plugins.targets.latest import latest

_POINTS = (
    "iceberg.snapshot.whole_committed",
    "iceberg.files.written",
    "iceberg.commit.before",
    "iceberg.commit.after",
    "iceberg.ddl.before",
    "iceberg.ddl.after",
    "iceberg.batch.taken",
    "iceberg.compaction.written",
)
"""The last but one is passed where commits hold many batches, the last by maintenance."""


class LatestPair(IcebergPair):
    """Of the two tables the one with a key is replicated."""

    def settings(self, **settings: Any) -> None:
        """Give the target more settings."""
        assert self.replicator.target is not None
        name, before = self.replicator.target
        self.replicator.target = (name, {**before, **settings})

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        names = self.database.columns(table)
        if table != "customer":
            return self.database.rows(table)
        found = StaticTable.from_metadata(str(newest_metadata(self.lake / "main" / table)))
        rows = found.scan().to_arrow()
        every = rows.to_pylist()
        return Counter(tuple(every[place].get(name) for name in names) for place in latest(rows, found.properties))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LatestPair]:
    """Not copied yet."""
    shop = Shop(tmp_path, mode="merge-on-read")
    only = [{"database": "main", "table": "customer"}]
    shop.replicator.settings = {**shop.replicator.settings, "tables": only}
    pair = LatestPair(shop.database, shop.replicator, random.Random(19))
    pair.lake = shop.lake
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    with OneProcess(tmp_path / "process") as pair.process:
        yield pair


@pytest.mark.timeout(1800)
def test_runs_after_a_kill_at_each_step_are_read_as_the_source(pair: LatestPair) -> None:
    for number, point in enumerate(some(_POINTS, 2, name="iceberg merge on read")):
        begins = "snapshot" in point
        if not begins:
            assert pair.run() == ""
            pair.change_rows(20)
        if "ddl" in point:
            pair.database.run(f"ALTER TABLE customer ADD COLUMN city_{number} TEXT DEFAULT 'Rome'")
            pair.database.notice()
            pair.change_rows(3)
        pair.settings(commitIntervalMs=1000 if "taken" in point else 0)
        if "compaction" in point:
            pair.settings(compactIntervalSeconds=0)
            for _ in range(8):  # as many small files
                pair.change_rows(3)
                assert pair.run() == ""
            pair.settings(compactIntervalSeconds=0.2)
        pair.process.kill_at(pair.replicator.document(), point, until_current="compaction" not in point)
        pair.change_rows()
        pair.check(point)
