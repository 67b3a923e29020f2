"""A first start that is killed while it creates its slot begins again by itself; another state of the same name leaves the slot alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.crash.file_target import file_target_rows
from tests.crash.kill_points import OF_SLOT
from tests.crash.kills import killed
from tests.crash.three_runs import ThreeRuns
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase

ELSEWHERE = "RPL-3214"
SLOTS = "SELECT slot_name, confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database() AND NOT temporary"


@dataclass
class Shop:
    """One table of a database, and one replicator of it."""

    database: PostgresDatabase
    replicator: Replicator
    structures: int = 0

    def change_rows(self) -> None:
        self.database.execute("INSERT INTO item (id) SELECT max(id) + 1 FROM item; DELETE FROM item WHERE id % 7 = 3")

    def change_structure(self) -> None:
        self.structures += 1
        self.database.execute(f"ALTER TABLE item ADD later_{self.structures} int DEFAULT 1")

    def run_until_current(self) -> object:
        return self.replicator.until_current(seconds=180)

    def differences(self) -> object:
        source = Counter(map(tuple, self.database.execute("SELECT * FROM item")))
        copy = file_target_rows(self.replicator.folder / "target", "item")
        return (source - copy).total() + (copy - source).total()

    def kill_at(self, point: str) -> None:
        killed(self.replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{point}=kill"), point)

    def is_refused(self) -> None:
        """A run is, and after a plain `replicator reset`, too."""
        before = self.database.execute(SLOTS)
        for _ in range(2):
            ended = self.replicator.run("--until-current")
            assert (ended.status, ended.error.get("code")) == (3, ELSEWHERE), ended.messages[-2000:]
            assert self.replicator.start_command("reset", str(self.replicator.pipeline), "--yes").wait().status == 0
        assert self.database.execute(SLOTS) == before


def shops(database: PostgresDatabase, folder: Path, package: str) -> tuple[Shop, Shop]:
    """Two of the same name, each with its state and its target."""
    database.execute("CREATE TABLE item (id int PRIMARY KEY); INSERT INTO item SELECT generate_series(1, 30)")
    found = []
    for name in ("first", "other"):
        (folder / name).mkdir()
        target = ("file", {"path": str(folder / name / "target")})
        environment = {"PYTHONPATH": package}
        made = Replicator(folder / name, postgres_source(database), target, environment=environment)
        found.append(Shop(database, made))
    return found[0], found[1]


def test_three_runs_after_kills_of_a_first_start_are_equal_and_the_slot_is_left_to_its_state(
    postgres_database: PostgresDatabase, tmp_path: Path, file_target_package: str
) -> None:
    first, other = shops(postgres_database, tmp_path, file_target_package)
    tried = ["postgres.slot.noted", "postgres.slot.created", "postgres.slot.dropped", "postgres.slot.created"]
    assert set(tried) == OF_SLOT
    for point in tried:
        first.kill_at(point)
    other.is_refused()
    ThreeRuns(first, [first]).check()
    other.is_refused()
    first.change_rows()
    first.run_until_current()
    assert not first.differences()


def test_a_start_killed_before_its_slot_exists_leaves_the_slot_to_the_one_that_creates_it(
    postgres_database: PostgresDatabase, tmp_path: Path, file_target_package: str
) -> None:
    """It began with that slot, which it took for its own, as soon as no session used it."""
    first, other = shops(postgres_database, tmp_path, file_target_package)
    first.kill_at("postgres.slot.noted")
    other.run_until_current()
    other.change_rows()
    first.is_refused()
    ThreeRuns(other, [other]).check()
