"""Runs that are killed while they write leave files; `replicator maintain`, itself killed, deletes them and no other; read by `pyiceberg`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from tests.crash.kills import killed
from tests.crash.one_process import OneProcess
from tests.crash.sqlite.database import TABLES
from tests.depth import some
from tests.plugins.targets.iceberg.commands.test_kills import IcebergPair
from tests.plugins.targets.iceberg.orphans.folders import age, checksums_of_nothing, files, needed
from tests.plugins.targets.iceberg.test_kills import Shop
from tests.plugins.targets.iceberg.warehouse import newest_metadata

_POINTS = ("iceberg.files.written", "iceberg.commit.before", "iceberg.compaction.written", "iceberg.ddl.before")
_MAINTAIN = ("maintain", "--task", "orphans", "--all")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[IcebergPair]:
    """Not copied yet, and not compacted."""
    shop = Shop(tmp_path, compactIntervalSeconds=0)
    pair = IcebergPair(shop.database, shop.replicator, random.Random(19))
    pair.lake = shop.lake
    with OneProcess(tmp_path / "process") as pair.process:
        yield pair


def place(pair: IcebergPair, table: str) -> Path:
    return pair.lake / "main" / table


def left(pair: IcebergPair) -> set[Path]:
    """Files that nothing needs."""
    return {
        path
        for table in TABLES
        for path in files(place(pair, table))
        - needed(StaticTable.from_metadata(str(newest_metadata(place(pair, table)))))
    }


def compacts_soon(pair: IcebergPair) -> None:
    """Nine small files, and a target that puts them together at once from now on."""
    for _ in range(9):
        pair.change_rows()
        assert pair.run() == ""
    assert pair.replicator.target is not None
    name, settings = pair.replicator.target
    pair.replicator.target = (name, {**settings, "compactIntervalSeconds": 1})


@pytest.mark.timeout(1500)
def test_what_killed_runs_left_is_gone_after_maintenance_and_no_file_that_is_needed(pair: IcebergPair) -> None:
    """Killed while a table is copied, between files and commit, while it compacts; then while it deletes what the others left."""
    pair.process.kill_at(pair.replicator.document(), "iceberg.snapshot.whole_written")
    assert pair.run() == ""
    for point in some(_POINTS, 2, name="iceberg orphans"):
        pair.change_rows()
        if ".ddl." in point:
            pair.change_structure()
        if ".compaction." in point:
            compacts_soon(pair)
        pair.process.kill_at(pair.replicator.document(), point, until_current=".compaction." not in point)
    pair.replicator.pipeline.write_text(json.dumps(pair.replicator.document()))
    assert pair.run() == ""
    assert left(pair)
    for point in ("iceberg.orphans.found", "iceberg.orphans.deleted"):
        age(pair.lake)
        command = (_MAINTAIN[0], str(pair.replicator.pipeline), *_MAINTAIN[1:])
        killed(pair.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    age(pair.lake)
    done = pair.replicator.start_command(_MAINTAIN[0], str(pair.replicator.pipeline), *_MAINTAIN[1:]).wait()
    assert done.status == 0, done.messages[-3000:]
    assert left(pair) == set()
    assert [path for table in TABLES for path in checksums_of_nothing(place(pair, table))] == []
    assert pair.differences() == {}
    pair.change_rows()
    pair.check("iceberg.orphans.deleted")
