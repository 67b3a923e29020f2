"""A process killed while tables exchange their names is followed by three runs that end equal, whatever names they have by then."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.crash.file_target import file_target_rows
from tests.crash.kills import harms, killed
from tests.crash.postgres.command import COMMAND
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.comparison import copies_differ
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase

TABLES = """CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);
INSERT INTO a SELECT n, 'a' FROM generate_series(1, 30) n; INSERT INTO b SELECT n, 'b' FROM generate_series(1, 30) n"""
EXCHANGE = "BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; COMMIT"
POINTS = ("postgres.rename.stored", "engine.rename.saved", "engine.rename.applied")


@dataclass
class Exchanged:
    """Two tables and their copies; `source` and `copy` of three runs at once."""

    database: PostgresDatabase
    replicator: Replicator
    structures: int = 0

    def change_rows(self) -> None:
        """Insert, update and delete."""
        for table in ("a", "b"):
            self.database.execute(f"INSERT INTO {table} (id, v) SELECT max(id) + 1, 'new {table}' FROM {table}")
            self.database.execute(f"UPDATE {table} SET v = v || '!' WHERE id % 5 = 0")
            self.database.execute(f"DELETE FROM {table} WHERE id = (SELECT min(id) FROM {table})")

    def change_structure(self) -> None:
        """Another column, then an exchange of names."""
        self.structures += 1
        self.database.execute("ALTER TABLE a ADD later text DEFAULT 'later'" if self.structures % 2 else EXCHANGE)

    def run_until_current(self) -> object:
        """Run until the target has all changes; no table is copied."""
        ended = self.replicator.until_current(seconds=180)
        assert self.replicator.copied(ended) == [], ended.messages
        return ended

    def differences(self) -> object:
        """How source and copies differ."""
        if self.replicator.target is None:
            with self.database.connect() as connection:
                return copies_differ(connection, self.replicator.lake, [("public", "a"), ("public", "b")])
        return {t: found for t in ("a", "b") if (found := self._different(t))}

    def _different(self, table: str) -> int:
        source: Counter[tuple[Any, ...]] = Counter(map(tuple, self.database.execute(f"SELECT * FROM {table}")))
        copy = file_target_rows(self.replicator.folder / "target", table)
        return (source - copy).total() + (copy - source).total()

    def killed_at(self, point: str) -> None:
        """Exchange the names, and kill the run that sees it."""
        self.replicator.until_current()
        self.change_rows()
        self.database.execute(EXCHANGE)
        self.change_rows()
        killed(self.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)


def _in_a_file(database: PostgresDatabase, folder: Path, package: str) -> Exchanged:
    database.execute(TABLES)
    target = ("file", {"path": str(folder / "target")})
    return Exchanged(
        database, Replicator(folder, postgres_source(database), target, environment={"PYTHONPATH": package})
    )


@pytest.mark.parametrize("back", [False, True], ids=["", "exchanged_again"])
@pytest.mark.parametrize("point", POINTS)
def test_three_runs_after_a_kill_beside_an_exchange_of_names_are_equal(
    point: str, back: bool, postgres_database: PostgresDatabase, tmp_path: Path, file_target_package: str
) -> None:
    exchanged = _in_a_file(postgres_database, tmp_path, file_target_package)
    exchanged.killed_at(point)
    if back:
        exchanged.database.execute(EXCHANGE)
    exchanged.change_rows()
    ThreeRuns(exchanged, [exchanged]).check()


def test_without_what_is_stored_of_the_exchange_rows_reach_the_other_table(
    postgres_database: PostgresDatabase, tmp_path: Path, file_target_package: str
) -> None:
    (tmp_path / "pair").mkdir()
    exchanged = _in_a_file(postgres_database, tmp_path / "pair", file_target_package)
    exchanged.killed_at("postgres.rename.stored")
    shutil.copytree(tmp_path / "pair", tmp_path / "twin")
    target = ("file", {"path": str(tmp_path / "twin" / "target")})
    command = (*COMMAND, "names")
    twin = replace(exchanged.replicator, folder=tmp_path / "twin", target=target, command=command)
    twin.run("--until-current")
    assert Exchanged(postgres_database, twin).differences()
    harms.append("names")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", ["postgres.rename.stored", "delta.rename.moved"])
def test_three_runs_into_delta_after_a_kill_beside_an_exchange_of_names_are_equal(
    point: str, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    postgres_database.execute(TABLES)
    exchanged = Exchanged(postgres_database, Replicator(tmp_path, postgres_source(postgres_database)))
    exchanged.killed_at(point)
    exchanged.change_rows()
    ThreeRuns(exchanged, [exchanged]).check()
