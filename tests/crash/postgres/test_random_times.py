"""A process killed at any time while it replicates Postgres into Delta: three runs after each kill end equal."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.kills import harms
from tests.crash.one_process import CopyInProcess, OneProcess
from tests.crash.three_runs import ThreeRuns
from tests.depth import some
from tests.end_to_end.comparison import copies_differ
from tests.end_to_end.postgres import workload
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase


class Pair:
    """The workload's tables, a replicator in a process, and its copies; `source` of three runs."""

    def __init__(self, database: PostgresDatabase, folder: Path, process: OneProcess) -> None:
        self.database, self.process = database, process
        self.replicator = Replicator(folder, postgres_source(database))
        self.copy = CopyInProcess(process, self.replicator.document, self.differences)
        self._structures = self._seed = 0
        with database.connect() as connection:
            workload.create(connection)

    def writers(self, threads: int = 3) -> workload.Writers:
        """Writers of other random transactions at each call."""
        self._seed += 1
        return workload.Writers(self.database, self._seed, threads)

    def change_rows(self) -> None:
        """Some random transactions."""
        with self.writers(threads=1) as writers:
            while writers.transactions < 20:
                time.sleep(0.01)

    def change_structure(self) -> None:
        """Another column, another name of it, or no more rows of a table."""
        cycle, kind = divmod(self._structures, 3)
        self._structures += 1
        statements = (
            f"ALTER TABLE customer ADD COLUMN later_{cycle} text DEFAULT 'later'",
            f"ALTER TABLE customer RENAME COLUMN later_{cycle} TO latest_{cycle}",
            "TRUNCATE journal",
        )
        self.database.execute(statements[kind])

    def differences(self) -> str:
        """How tables and copies differ."""
        with self.database.connect() as connection:
            return copies_differ(connection, self.replicator.lake, workload.TABLES)


@pytest.fixture
def pair(postgres_database: PostgresDatabase, tmp_path: Path) -> Iterator[Pair]:
    with OneProcess(tmp_path / "process") as process:
        yield Pair(postgres_database, tmp_path / "pair", process)


@pytest.mark.timeout(600)
def test_three_runs_after_each_of_three_kills_under_concurrent_writers_are_equal(pair: Pair) -> None:
    """One in the first run, wherever it is; one while it streams; one while it meets six schema changes.

    Every kill is followed by three whole runs.
    """
    chance = random.Random(7)
    for moment in some(("copying", "streaming", "changes of structure"), 1, name="random times"):
        with pair.writers() as writers:
            pair.process.start(pair.replicator.document())
            if moment == "changes of structure":
                _change_structure(pair.database, chance)
            else:
                time.sleep(chance.uniform(0, 4))
            pair.process.kill()
            writers.wait_for(35)
        ThreeRuns(pair, [pair.copy]).check()


def _change_structure(database: PostgresDatabase, chance: random.Random) -> None:
    with database.connect() as connection:
        for change in workload.STRUCTURE_CHANGES:
            workload.change_structure(connection, change)
            time.sleep(chance.uniform(0, 1))


def test_without_the_tables_own_progress_a_kill_doubles_rows(pair: Pair) -> None:
    """The twin of a kill between data and offset."""
    document = pair.replicator.document()
    assert pair.process.run(document) == ""
    assert pair.differences() == ""
    pair.database.execute("INSERT INTO journal VALUES (1, 'twice', NULL)")
    pair.process.kill_at(document, "engine.offset.before_save")
    assert pair.process.run(document, "progress") == ""
    assert "public.journal" in pair.differences()
    harms.append("progress")
