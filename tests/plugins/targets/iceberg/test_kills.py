"""SQLite into Iceberg as a person runs it: killed at the plugin's own steps, then continued three times; read by `pyiceberg`."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from tests.crash.kills import killed
from tests.crash.sqlite.database import TABLES, Database
from tests.end_to_end.replicator import Replicator
from tests.plugins.targets.iceberg.warehouse import newest_metadata
from tests.services.artifacts import iceberg_jars


class Shop:
    """A SQLite database and its replicator into Iceberg."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        iceberg_jars()
        self.database = Database(folder / "shop.db")
        self.database.create()
        self.lake = folder / "lake"
        target = {"catalog": "lake", "catalogType": "hadoop", "warehouse": str(self.lake), **settings}
        self.replicator = Replicator(folder, ("sqlite", {"path": str(self.database.path)}), ("iceberg", target))
        self._chance = random.Random(19)

    def change(self, *statements: str) -> None:
        """Some random transactions, then these statements."""
        for _ in range(4):
            self.database.change(self._chance)
        if statements:
            self.database.run(*statements)
            self.database.notice()
            self.database.change(self._chance)

    def kill_at(self, point: str) -> None:
        """A run that dies there."""
        killed(self.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)

    def copy(self, table: str) -> Counter[tuple[Any, ...]]:
        """The rows at the target, as a bag, in the order of the source's columns."""
        names = self.database.columns(table)
        return Counter(tuple(row[name] for name in names) for row in self.rows_at(self.lake, table))

    @staticmethod
    def rows_at(lake: Path, table: str) -> list[dict[str, Any]]:
        """The rows of a table below `lake`."""
        found = StaticTable.from_metadata(str(newest_metadata(lake / "main" / table))).scan().to_arrow()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def check(self) -> None:
        """Run to the end; source and target are equal then."""
        ended = self.replicator.run("--until-current")
        assert ended.status == 0, ended.messages[-3000:]
        for table in TABLES:
            assert self.copy(table) == self.database.rows(table), table


@pytest.mark.parametrize("version", [2])
def test_kills_at_every_kind_of_step_lose_and_double_nothing(tmp_path: Path, version: int) -> None:
    """While it copies, between files and commit, after a commit whose offset is not saved, and beside a change of columns.

    One of the tables is partitioned, also by a column that updates change, and sorted.
    """
    arranged = {"main.customer": ["bucket(2, id)", "visits"]}
    shop = Shop(tmp_path, formatVersion=version, partitioning=arranged, sortOrder={"main.customer": ["visits desc"]})
    shop.kill_at("iceberg.snapshot.whole_committed")
    shop.change()
    shop.kill_at("iceberg.files.written")
    shop.kill_at("iceberg.commit.after")
    shop.check()  # both are copied now: what is killed next is the change of columns
    shop.change("ALTER TABLE customer ADD COLUMN city TEXT DEFAULT 'Rome'")
    shop.kill_at("iceberg.ddl.after")
    shop.check()
    shop.change("ALTER TABLE customer RENAME COLUMN city TO town")
    shop.check()
    shop.change("DELETE FROM note")
    shop.check()
