"""A commit of five tables that is killed between any two of its steps, or by a run that is held up and goes on late.

After each come three runs with changes of rows and of structure between them; `pyiceberg` reads the tables.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.kills import harms
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.sqlite.database import TABLES as TWO_TABLES
from tests.crash.sqlite.database import Database
from tests.crash.three_runs import ThreeRuns
from tests.depth import some
from tests.plugins.targets.iceberg.test_kills import Shop
from tests.services.artifacts import iceberg_jars
from tests.services.spark.session import SMALL

MORE: Final = ("orders", "part", "stock")
TABLES: Final = (*TWO_TABLES, *MORE)
STEPS: Final = (
    ("iceberg.batch.taken", 1),
    ("iceberg.batch.taken", 3),
    ("iceberg.batch.taken", 5),
    ("iceberg.round.begun", 1),
    *((f"iceberg.commit.{when}", number) for number in range(1, 6) for when in ("before", "after")),
    ("iceberg.round.ended", 1),
    ("engine.offset.before_save", 1),
    ("engine.offset.after_save", 1),
)
"""In a run, the place and how many of the five tables were there before."""
ZOMBIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("iceberg.commit.before", MORE[:1]),
    ("iceberg.round.begun", TABLES),
)
"""Where a run is held up, and which tables it commits then: inside a commit to folders it would keep the lock of another table, for which the next run waits."""
ADDED: Final = {
    "customer": "INSERT INTO customer (id, name, visits) VALUES ((SELECT max(id) + 1 FROM customer), 'late', 1)",
    "note": "INSERT INTO note VALUES ('late')",
    **{table: f"INSERT INTO {table} (id, amount) VALUES ((SELECT max(id) + 1 FROM {table}), 1)" for table in MORE},
}
ENDS: Final = {"RPL-8420", "RPL-7131"}
"""By its commit, or because it notices before that its lease is another's."""


class FiveTables(Database):
    """Every transaction changes each of them."""

    def create(self) -> None:
        """Make the tables, with rows."""
        super().create()
        for table in MORE:
            self.run(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, amount INTEGER)")
            self.run(f"INSERT INTO {table} SELECT id, 0 FROM customer")

    def change(self, chance: random.Random) -> None:
        """One random transaction, and one that changes all."""
        super().change(chance)
        key, free = chance.randint(1, 200), chance.randint(1000, 10**9)
        self.run(
            f"INSERT OR IGNORE INTO customer (id, name, visits) VALUES ({free}, 'new', 1)",
            f"INSERT INTO note VALUES ('note {key % 20}')",
            *(f"UPDATE {table} SET amount = amount + 1 WHERE id BETWEEN {key} AND {key + 9}" for table in MORE),
            *(f"INSERT OR IGNORE INTO {table} (id, amount) VALUES ({free}, 1)" for table in MORE),
            *(f"DELETE FROM {table} WHERE id = {key}" for table in MORE),
        )


@dataclass
class Five:
    """The tables and their replicator; `source` and `copy` of three runs at once."""

    folder: Path
    database: FiveTables
    process: OneProcess
    other: OneProcess
    interval: int = 3_600_000
    chance: random.Random = field(default_factory=lambda: random.Random(23))
    _structures: int = 0

    def document(self) -> Mapping[str, Any]:
        """The pipeline JSON."""
        lake = {"catalog": "lake", "catalogType": "hadoop", "warehouse": str(self.folder / "lake")}
        settings = {**lake, "coordinator": "state", "commitIntervalMs": self.interval}
        source = {"name": "sqlite", "type": "cdcSource", "properties": {"path": str(self.database.path)}}
        target = {"name": "iceberg", "type": "cdcTarget", "properties": settings}
        return {
            "name": "shop",
            "offsetBasePath": str(self.folder / "state"),
            "stages": [{"name": "source", "plugin": source}, {"name": "target", "plugin": target}],
            "connections": [{"from": "source", "to": "target"}],
            "batch": {"maxIntervalSeconds": 0.1},
            "retries": {"maxDurationSeconds": 60, "delaySeconds": 0.2},
            "spark": {"master": "local[2]", "conf": SMALL},
        }

    def change_rows(self) -> None:
        """Some transactions, each of which changes all tables."""
        for _ in range(4):
            self.database.change(self.chance)

    def change_structure(self) -> None:
        """Columns that come and get another name, and a table that is emptied."""
        cycle, kind = divmod(self._structures, 3)
        self._structures += 1
        statements = (
            f"ALTER TABLE orders ADD COLUMN later_{cycle} TEXT DEFAULT 'later'",
            f"ALTER TABLE orders RENAME COLUMN later_{cycle} TO latest_{cycle}",
            "DELETE FROM stock",
        )
        self.database.run(statements[kind])

    def run_until_current(self) -> None:
        """A run that ends by itself; it waits for the lease of a run that is held up."""
        assert self.process.run(self.document(), "lapse") == ""

    def three_runs(self) -> None:
        """Three runs follow; after each, source and target are equal."""
        ThreeRuns(self, [CopyInProcess(self.process, self.document, self.differences)]).check()

    def differences(self) -> dict[str, tuple[int, int]]:
        """Table → how many rows are lost, and how many doubled or wrong; empty when all are equal."""
        found = {}
        for table in TABLES:
            source, copy = self.database.rows(table), self._copy(table)
            if source != copy:
                found[table] = ((source - copy).total(), (copy - source).total())
        return found

    def _copy(self, table: str) -> Counter[tuple[Any, ...]]:
        rows = Shop.rows_at(self.folder / "lake", table)
        return Counter(tuple(row.get(name) for name in self.database.columns(table)) for row in rows)


@pytest.fixture
def five(tmp_path: Path) -> Iterator[Five]:
    """All tables are copied, and equal."""
    iceberg_jars()
    database = FiveTables(tmp_path / "shop.db")
    database.create()
    with OneProcess(tmp_path / "process") as process, OneProcess(tmp_path / "other") as other:
        made = Five(tmp_path, database, process, other)
        made.run_until_current()
        assert made.differences() == {}
        yield made


@pytest.mark.timeout(3600)
def test_three_runs_after_a_kill_between_any_two_steps_of_a_commit_of_five_tables_are_equal(five: Five) -> None:
    """Some of the tables have the commit then, others have files that no snapshot names; each goes on where it was."""
    for point, number in some(STEPS, 2, name="five tables"):
        five.change_rows()
        five.other.kill_at(five.document(), point, times=number)
        five.three_runs()


@pytest.mark.timeout(900)
def test_without_the_tables_own_positions_a_kill_between_two_tables_doubles_rows(five: Five) -> None:
    """So the kills above find what the positions are for."""
    five.change_rows()
    five.other.kill_at(five.document(), "iceberg.commit.after", times=5)
    assert five.process.run(five.document(), "progress") == ""
    assert any(doubled for _, doubled in five.differences().values())
    harms.append("progress")


@pytest.mark.timeout(1800)
def test_a_run_that_is_held_up_past_its_lease_commits_nothing_when_it_goes_on(five: Five) -> None:
    """Stopped by SIGSTOP inside a commit of five tables; another run takes over, and is the only one whose commits count."""
    five.interval = 200
    for point, tables in some(ZOMBIES, 1, name="held up"):
        five.other.stop_at(five.document(), point)
        five.database.run(*map(ADDED.__getitem__, tables))
        five.other.stopped()
        five.change_rows()
        five.run_until_current()
        assert five.differences() == {}
        snapshots = five.folder / "lake" / "main" / "customer" / "metadata"
        before = sorted(path.name for path in snapshots.glob("v*.metadata.json"))
        assert five.other.go_on() in ENDS
        assert five.differences() == {}
        assert sorted(path.name for path in snapshots.glob("v*.metadata.json")) == before
        five.three_runs()
